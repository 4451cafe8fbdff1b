// Command release makes what a release has beside its images: signatures and provenance, the metadata of the chart, and the
// bundle for the Operator Lifecycle Manager. hack/release.sh runs it, and verify checks a release folder.
package main

import (
	"fmt"

	"github.com/alecthomas/kong"
)

func main() {
	var command struct {
		Chart  chartCommand  `cmd:"" help:"Write the metadata of a release into a copy of the chart: annotations for Artifact Hub, and the digests of the images."`
		Olm    olmCommand    `cmd:"" help:"Write the bundle for the Operator Lifecycle Manager."`
		Prove  proveCommand  `cmd:"" help:"Write the provenance and the checksums of the files of a release, signed if there is a key."`
		Sign   signCommand   `cmd:"" help:"Write a signature of each image."`
		Verify verifyCommand `cmd:"" help:"Verify the files and the images of a release with a public key."`
		Key    keyCommand    `cmd:"" help:"Write a new pair of keys, as cosign has them. COSIGN_PASSWORD encrypts the private one."`
	}
	parsed := kong.Parse(&command, kong.Name("release"), kong.Description("Makes what a release of mediastack has beside its images."))
	parsed.FatalIfErrorf(parsed.Run())
}

// images are the names of the images.
var images = []string{"operator", "runtime"}

func imageArchive(name, version string) string {
	return fmt.Sprintf("mediastack-%s-%s.tar", name, version)
}
