package capturefile_test

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// form is a file as a phone, a camera or a program writes it: a file without metadata, and the tags that exiftool writes into it.
type form struct {
	name string
	file func(t *testing.T) []byte
	tags []string
}

func jpegFile(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 8, 8)), nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func pngFile(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 8, 8))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// sample returns a function that reads a sample of an image format.
func sample(name string) func(t *testing.T) []byte {
	return func(t *testing.T) []byte {
		t.Helper()
		data, err := os.ReadFile(filepath.Join("..", "vips", "samples", name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
}

// tiffFile returns a picture of one pixel.
func tiffFile(*testing.T) []byte {
	entries := [][4]uint32{{0x100, 3, 1, 1}, {0x101, 3, 1, 1}, {0x102, 3, 1, 8}, {0x103, 3, 1, 1}, {0x106, 3, 1, 1}, {0x111, 4, 1, 8}, {0x115, 3, 1, 1}, {0x116, 3, 1, 1}, {0x117, 4, 1, 1}}
	b := []byte("II*\x00\x0a\x00\x00\x00\x7f\x00")
	b = binary.LittleEndian.AppendUint16(b, uint16(len(entries)))
	for _, e := range entries {
		b = binary.LittleEndian.AppendUint16(b, uint16(e[0]))
		b = binary.LittleEndian.AppendUint16(b, uint16(e[1]))
		b = binary.LittleEndian.AppendUint32(b, e[2])
		b = binary.LittleEndian.AppendUint32(b, e[3])
	}
	return append(b, 0, 0, 0, 0)
}

// box returns a box of ISO base media.
func box(kind string, parts ...[]byte) []byte {
	body := slices.Concat(parts...)
	return slices.Concat(binary.BigEndian.AppendUint32(nil, uint32(8+len(body))), []byte(kind), body)
}

// movieFile returns a function that makes a movie of a brand, whose box moov is before or after the media.
func movieFile(brand string, moovFirst bool) func(t *testing.T) []byte {
	return func(*testing.T) []byte {
		header := make([]byte, 100)
		binary.BigEndian.PutUint32(header[12:], 1000)
		binary.BigEndian.PutUint32(header[16:], 2000)
		binary.BigEndian.PutUint32(header[20:], 0x10000)
		binary.BigEndian.PutUint32(header[96:], 2)
		ftyp, moov, mdat := box("ftyp", []byte(brand), []byte{0, 0, 2, 0}, []byte(brand)), box("moov", box("mvhd", header)), box("mdat", make([]byte, 64))
		if moovFirst {
			return slices.Concat(ftyp, moov, mdat)
		}
		return slices.Concat(ftyp, mdat, moov)
	}
}

// forms are those of phones, cameras, scanners and programs.
var forms = []form{
	{"iphone-15-jpeg", jpegFile, []string{"-EXIF:Make=Apple", "-EXIF:Model=iPhone 15 Pro", "-EXIF:LensModel=iPhone 15 Pro back triple camera 6.765mm f/1.78", "-EXIF:DateTimeOriginal=2024:05:01 12:30:45", "-EXIF:OffsetTimeOriginal=+02:00", "-EXIF:SubSecTimeOriginal=123", "-GPSLatitude=48.858222", "-GPSLatitudeRef=N", "-GPSLongitude=2.2945", "-GPSLongitudeRef=E", "-GPSAltitude=35"}},
	{"iphone-heic", sample("sample.heic"), []string{"-EXIF:Make=Apple", "-EXIF:Model=iPhone 12 mini", "-EXIF:LensModel=iPhone 12 mini back dual wide camera 4.2mm f/1.6", "-EXIF:DateTimeOriginal=2022:12:24 18:00:01", "-EXIF:OffsetTimeOriginal=-08:00", "-GPSLatitude=37.7749", "-GPSLatitudeRef=N", "-GPSLongitude=122.4194", "-GPSLongitudeRef=W"}},
	{"iphone-edited-heic", sample("sample.heic"), []string{"-EXIF:Make=Apple", "-EXIF:Model=iPhone SE", "-EXIF:DateTimeOriginal=2021:01:01 00:00:00", "-XMP-dc:Title=New Year", "-XMP:Rating=5"}},
	{"pixel-8", jpegFile, []string{"-EXIF:Make=Google", "-EXIF:Model=Pixel 8 Pro", "-EXIF:LensModel=Pixel 8 Pro back camera 6.9mm f/1.68", "-EXIF:DateTimeOriginal=2024:02:29 23:59:59", "-EXIF:OffsetTimeOriginal=+00:00", "-GPSLatitude=51.5007", "-GPSLatitudeRef=N", "-GPSLongitude=0.1246", "-GPSLongitudeRef=W"}},
	{"pixel-webp", sample("sample.webp"), []string{"-EXIF:Make=Google", "-EXIF:Model=Pixel 6", "-EXIF:DateTimeOriginal=2023:07:14 08:00:00", "-EXIF:OffsetTimeOriginal=+05:30"}},
	{"galaxy-s24", jpegFile, []string{"-EXIF:Make=samsung", "-EXIF:Model=Galaxy S24 Ultra", "-EXIF:DateTimeOriginal=2024:08:15 07:07:07", "-EXIF:OffsetTimeOriginal=+09:00"}},
	{"galaxy-a-without-offset", jpegFile, []string{"-EXIF:Make=samsung", "-EXIF:Model=SM-A546B", "-EXIF:DateTimeOriginal=2023:11:11 11:11:11", "-GPSLatitude=33.8568", "-GPSLatitudeRef=S", "-GPSLongitude=151.2153", "-GPSLongitudeRef=E"}},
	{"huawei-p60", jpegFile, []string{"-EXIF:Make=HUAWEI", "-EXIF:Model=LNA-LX9", "-EXIF:DateTimeOriginal=2023:06:06 06:06:06", "-EXIF:OffsetTimeOriginal=+08:00"}},
	{"xiaomi-14", jpegFile, []string{"-EXIF:Make=Xiaomi", "-EXIF:Model=23116PN5BC", "-EXIF:DateTimeOriginal=2024:01:31 15:16:17", "-GPSLatitude=22.9519", "-GPSLatitudeRef=S", "-GPSLongitude=43.2105", "-GPSLongitudeRef=W"}},
	{"oneplus", jpegFile, []string{"-EXIF:Make=OnePlus", "-EXIF:Model=CPH2581", "-EXIF:DateTimeOriginal=2024:03:03 03:03:03"}},
	{"canon-r5", jpegFile, []string{"-EXIF:Make=Canon", "-EXIF:Model=Canon EOS R5", "-EXIF:LensModel=RF24-105mm F4 L IS USM", "-EXIF:DateTimeOriginal=2022:09:09 09:09:09", "-EXIF:OffsetTimeOriginal=+01:00", "-EXIF:Rating=3"}},
	{"canon-5d-2008", jpegFile, []string{"-EXIF:Make=Canon", "-EXIF:Model=Canon EOS 5D", "-EXIF:DateTimeOriginal=2008:04:05 16:17:18", "-EXIF:CreateDate=2008:04:05 16:17:18", "-EXIF:ModifyDate=2010:01:01 00:00:00"}},
	{"nikon-z8", jpegFile, []string{"-EXIF:Make=NIKON CORPORATION", "-EXIF:Model=NIKON Z 8", "-EXIF:LensModel=NIKKOR Z 24-120mm f/4 S", "-EXIF:DateTimeOriginal=2023:10:10 10:10:10", "-EXIF:OffsetTimeOriginal=-03:30"}},
	{"sony-a7", jpegFile, []string{"-EXIF:Make=SONY", "-EXIF:Model=ILCE-7M4", "-EXIF:LensModel=FE 35mm F1.4 GM", "-EXIF:DateTimeOriginal=2024:06:30 20:21:22", "-EXIF:OffsetTimeOriginal=+10:45"}},
	{"fujifilm-xt5", jpegFile, []string{"-EXIF:Make=FUJIFILM", "-EXIF:Model=X-T5", "-EXIF:LensModel=XF33mmF1.4 R LM WR", "-EXIF:DateTimeOriginal=2023:03:21 12:00:00", "-EXIF:Rating=0"}},
	{"olympus", jpegFile, []string{"-EXIF:Make=OLYMPUS CORPORATION", "-EXIF:Model=E-M1MarkII", "-EXIF:ImageDescription=OLYMPUS DIGITAL CAMERA", "-EXIF:DateTimeOriginal=2019:02:03 04:05:06"}},
	{"panasonic", jpegFile, []string{"-EXIF:Make=Panasonic", "-EXIF:Model=DC-GH6", "-EXIF:DateTimeOriginal=2022:04:01 13:14:15"}},
	{"leica", jpegFile, []string{"-EXIF:Make=LEICA CAMERA AG", "-EXIF:Model=LEICA Q3", "-EXIF:LensModel=Summilux 1:1.7/28 ASPH.", "-EXIF:DateTimeOriginal=2023:08:08 08:08:08"}},
	{"dji-drone", jpegFile, []string{"-EXIF:Make=DJI", "-EXIF:Model=FC3582", "-EXIF:DateTimeOriginal=2023:05:05 05:05:05", "-GPSLatitude=64.9631", "-GPSLatitudeRef=N", "-GPSLongitude=19.0208", "-GPSLongitudeRef=W", "-GPSAltitude=420"}},
	{"gopro-jpeg", jpegFile, []string{"-EXIF:Make=GoPro", "-EXIF:Model=HERO12 Black", "-EXIF:DateTimeOriginal=2024:07:01 10:00:00"}},
	{"camera-without-a-clock", jpegFile, []string{"-EXIF:Make=Canon", "-EXIF:Model=Canon PowerShot A70", "-EXIF:DateTimeOriginal=0000:00:00 00:00:00"}},
	{"film-scan-of-1925", jpegFile, []string{"-EXIF:DateTimeOriginal=1925:06:01 12:00:00", "-EXIF:Make=EPSON", "-EXIF:Model=Perfection V850", "-XMP-dc:Title=Grandmother at the sea"}},
	{"digitized-only", jpegFile, []string{"-EXIF:CreateDate=2015:05:05 15:15:15", "-EXIF:OffsetTimeDigitized=+03:00", "-EXIF:Make=PENTAX", "-EXIF:Model=PENTAX K-3"}},
	{"modified-only", jpegFile, []string{"-EXIF:ModifyDate=2015:05:05 15:15:15", "-EXIF:Make=RICOH", "-EXIF:Model=GR III"}},
	{"big-endian", jpegFile, []string{"-ExifByteOrder=MM", "-EXIF:Make=Minolta", "-EXIF:Model=DiMAGE 7", "-EXIF:DateTimeOriginal=2002:02:20 20:02:20", "-GPSLatitude=1.3521", "-GPSLatitudeRef=N", "-GPSLongitude=103.8198", "-GPSLongitudeRef=E"}},
	{"little-endian", jpegFile, []string{"-ExifByteOrder=II", "-EXIF:Make=Kodak", "-EXIF:Model=DC290", "-EXIF:DateTimeOriginal=1999:12:31 23:59:59"}},
	{"lightroom-xmp", jpegFile, []string{"-XMP-tiff:Make=Canon", "-XMP-tiff:Model=Canon EOS R6", "-XMP-aux:Lens=RF50mm F1.2 L USM", "-XMP-exif:DateTimeOriginal=2021:07:07 07:07:07+02:00", "-XMP:Rating=4", "-XMP-dc:Title=Morgen"}},
	{"title-in-two-languages", jpegFile, []string{"-XMP-dc:Title=A boat", "-XMP-dc:Title-de=Ein Boot", "-XMP-photoshop:DateCreated=2020:10:11 12:13:14"}},
	{"xmp-gps", jpegFile, []string{"-XMP-exif:GPSLatitude=-54.8019", "-XMP-exif:GPSLongitude=-68.303", "-XMP-xmp:CreateDate=2018:01:02 03:04:05Z"}},
	{"rejected", jpegFile, []string{"-XMP:Rating=-1", "-EXIF:DateTimeOriginal=2017:01:01 01:01:01"}},
	{"darktable-png", pngFile, []string{"-EXIF:DateTimeOriginal=2024:04:04 04:04:04", "-EXIF:Make=SONY", "-EXIF:Model=DSC-RX100M7"}},
	{"xmp-png", pngFile, []string{"-XMP-exif:DateTimeOriginal=2016:06:16 16:16:16", "-XMP-dc:Title=Überblick", "-XMP:Rating=2"}},
	{"titled-png", pngFile, []string{"-PNG:Title=A title of PNG"}},
	{"scanner-tiff", tiffFile, []string{"-EXIF:Make=HP", "-EXIF:Model=ScanJet Pro", "-EXIF:CreateDate=2011:11:11 01:02:03"}},
	{"tiff-with-xmp", tiffFile, []string{"-EXIF:DateTimeOriginal=2013:03:13 13:13:13", "-XMP-dc:Title=Invoice", "-GPSLatitude=59.3293", "-GPSLatitudeRef=N", "-GPSLongitude=18.0686", "-GPSLongitudeRef=E"}},
	{"avif", sample("sample.avif"), []string{"-EXIF:DateTimeOriginal=2024:09:09 19:19:19", "-EXIF:OffsetTimeOriginal=+02:00", "-EXIF:Make=Google", "-EXIF:Model=Pixel 9"}},
	{"webp-with-xmp", sample("sample.webp"), []string{"-XMP-exif:DateTimeOriginal=2014:04:14 14:14:14", "-XMP-dc:Title=WebP"}},
	{"iphone-mov", movieFile("qt  ", false), []string{"-Keys:Make=Apple", "-Keys:Model=iPhone 14", "-Keys:CreationDate=2023:09:01 17:18:19+02:00", "-Keys:GPSCoordinates=41.9028 12.4964 50", "-QuickTime:CreateDate=2023:09:01 15:18:19"}},
	{"android-mp4", movieFile("mp42", true), []string{"-UserData:GPSCoordinates=-1.2921 36.8219", "-QuickTime:CreateDate=2024:02:02 02:02:02"}},
	{"canon-mp4", movieFile("mp42", true), []string{"-QuickTime:CreateDate=2022:02:22 22:22:22", "-UserData:Make=Canon", "-UserData:Model=Canon EOS R6"}},
	{"gopro-mp4", movieFile("mp41", false), []string{"-QuickTime:CreateDate=2019:09:19 09:19:29"}},
	{"mp4-without-a-time", movieFile("isom", true), []string{"-ItemList:Title=Screen recording"}},
	{"m4a", movieFile("M4A ", true), []string{"-ItemList:Title=Field notes", "-ItemList:ContentCreateDate=2021:03:04 05:06:07+01:00"}},
	{"quicktime-title", movieFile("qt  ", true), []string{"-Keys:Title=Holiday", "-Keys:DisplayName=Other", "-QuickTime:CreateDate=2010:10:10 10:10:10"}},
}
