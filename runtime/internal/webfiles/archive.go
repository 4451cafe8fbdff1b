package webfiles

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/fault"
	"mediastack.dev/runtime/internal/httpapi"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/minrate"
)

// Objects reads objects. objectstore.Store implements it.
type Objects interface {
	Open(ctx context.Context, bucket, key string, offset, length int64) (io.ReadCloser, error)
}

// sendArchive sends the originals of items as a ZIP archive. They are stored in it as they are, since media is compressed already, so the archive
// needs the memory of one buffer. It returns an error if nothing was sent; afterwards only a closed connection, and the missing directory at the end,
// show that the archive is incomplete: also for a client that reads too slowly while others want its slot.
func (a *API) sendArchive(w http.ResponseWriter, r *http.Request, o fileOwner, ids []uuid.UUID) error {
	ctx := r.Context()
	items, err := a.itemsOfArchive(ctx, o, ids)
	if err != nil {
		return err
	}
	if err := a.archives.acquire(o.principal.Account.ID); err != nil {
		return err
	}
	defer a.archives.release(o.principal.Account.ID)
	// An error of the first file is one that the page can still show.
	first, err := a.openOriginal(ctx, o.principal.Account.Bucket, items[0])
	if err != nil {
		return err
	}
	header := w.Header()
	header.Set("Content-Type", "application/zip")
	header.Set("Content-Disposition", `attachment; filename="files-`+a.Now().UTC().Format("2006-01-02")+`.zip"`)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(w)
	to := &client{to: w, pace: minrate.NewPace(a.ArchiveRate, archiveStall, func() bool { return a.archives.wanted(o.principal.Account.ID) }, func() { _ = control.SetWriteDeadline(time.Now()) })}
	if err := a.writeArchive(ctx, to, o.principal.Account.Bucket, items, first); err != nil {
		if !to.gone && ctx.Err() == nil {
			httpapi.SetError(ctx, fmt.Errorf("sending an archive failed: %w", err))
		}
		panic(http.ErrAbortHandler)
	}
	return nil
}

// client is the writer of a response at a pace, that records whether the client is gone or too slow.
type client struct {
	to   io.Writer
	pace *minrate.Pace
	gone bool
}

// Write sends the next bytes.

func (c *client) Write(p []byte) (int, error) {
	n, err := c.pace.Write(c.to, p)
	c.gone = c.gone || err != nil
	return n, err
}

// itemsOfArchive returns items whose originals fit into an archive.
func (a *API) itemsOfArchive(ctx context.Context, o fileOwner, ids []uuid.UUID) ([]media.Item, error) {
	if err := a.checkOperation(o.principal, account.GetMedia); err != nil {
		return nil, err
	}
	var items []media.Item
	var size int64
	for _, id := range ids {
		item, err := a.Media.Get(ctx, o.principal, id)
		if err != nil {
			return nil, err
		}
		if item.Readable() != nil {
			return nil, fault.New(fault.Conflict, "The file %s is not checked for malware yet: select it once it is kept.", item.FileName)
		}
		original, _ := item.Objects.Find(media.Original)
		size += original.Bytes
		items = append(items, item)
	}
	if size > a.cfg.MaxArchive {
		return nil, fault.New(fault.Invalid, "These files have %s. An archive may have %s: select fewer files.", media.HumanBytes(size), media.HumanBytes(a.cfg.MaxArchive))
	}
	return items, nil
}

func (a *API) openOriginal(ctx context.Context, bucket string, item media.Item) (io.ReadCloser, error) {
	original, ok := item.Objects.Find(media.Original)
	if !ok {
		return nil, media.ErrItemNotFound
	}
	return a.Objects.Open(ctx, bucket, original.Key, 0, original.Bytes)
}

// writeArchive writes the archive. first is the original of the first item, which it closes.
func (a *API) writeArchive(ctx context.Context, w io.Writer, bucket string, items []media.Item, first io.ReadCloser) (err error) {
	archive, names := zip.NewWriter(w), archiveNames{}
	for n, item := range items {
		content := first
		if n > 0 {
			if content, err = a.openOriginal(ctx, bucket, item); err != nil {
				return err
			}
		}
		err = addToArchive(archive, names.next(item.FileName), item, content)
		if err = errors.Join(err, content.Close()); err != nil {
			return err
		}
	}
	return archive.Close()
}

func addToArchive(archive *zip.Writer, name string, item media.Item, content io.Reader) error {
	file, err := archive.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store, Modified: item.CreatedAt})
	if err != nil {
		return err
	}
	original, _ := item.Objects.Find(media.Original)
	written, err := io.Copy(file, content)
	if err == nil && written != original.Bytes {
		err = fmt.Errorf("an original has %d of %d bytes", written, original.Bytes)
	}
	return err
}

// archiveNames are the names that an archive has, folded: some file systems do not tell case and forms of Unicode apart.
type archiveNames map[string]bool

// maxArchiveName bounds a name in an archive, in bytes, with room for the number of one that is there already.
const maxArchiveName = 240

// next returns the name of another file: one that every file system takes, and that no other file has.
func (n archiveNames) next(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case unicode.In(r, unicode.C):
			return -1
		case strings.ContainsRune(`<>:"|?*/\`, r):
			return '_'
		}
		return r
	}, name)
	name = strings.TrimLeft(strings.TrimRight(name, ". "), " ")
	extension := path.Ext(name)
	if len(extension) > 32 {
		extension = ""
	}
	stem := strings.TrimSuffix(name, extension)
	if device, _, _ := strings.Cut(stem, "."); reservedNames[strings.ToLower(strings.TrimRight(device, " "))] {
		stem = "file" + stem
	}
	for len(stem)+len(extension) > maxArchiveName {
		runes := []rune(stem)
		stem = string(runes[:len(runes)-1])
	}
	stem = strings.TrimRight(stem, ". ")
	if stem == "" {
		stem = "file"
	}
	name = stem + extension
	for copies := 2; n[folded(name)]; copies++ {
		name = stem + " (" + strconv.Itoa(copies) + ")" + extension
	}
	n[folded(name)] = true
	return name
}

// folded returns a form that is equal for names which a file system takes for the same.
func folded(name string) string { return norm.NFC.String(cases.Fold().String(norm.NFC.String(name))) }

// reservedNames are those that Windows does not permit.
var reservedNames = map[string]bool{"con": true, "prn": true, "aux": true, "nul": true, "com1": true, "com2": true, "com3": true, "com4": true, "com5": true, "com6": true, "com7": true, "com8": true, "com9": true,
	"lpt1": true, "lpt2": true, "lpt3": true, "lpt4": true, "lpt5": true, "lpt6": true, "lpt7": true, "lpt8": true, "lpt9": true,
	"com¹": true, "com²": true, "com³": true, "lpt¹": true, "lpt²": true, "lpt³": true, "conin$": true, "conout$": true}
