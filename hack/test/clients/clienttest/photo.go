package clienttest

import _ "embed" // the photo

// Photo is a JPEG that says when and where it was made: 2024-05-06T07:08:09+02:00, at 48.8584, 2.2945, with the camera Acme A 1.
//
//go:embed photo.jpg
var Photo []byte
