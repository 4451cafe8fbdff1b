package servers

import "os"

// WritePrivate replaces a file at once, readable by its owner only.
func WritePrivate(path string, content []byte) error {
	temporary := path + ".new"
	if err := os.WriteFile(temporary, content, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
