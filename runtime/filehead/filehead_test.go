package filehead_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/filehead"
)

// number returns a number of so many bytes.
func number(bytes int, value uint64) []byte {
	all := binary.BigEndian.AppendUint64(nil, value)
	return all[8-bytes:]
}

func little(bytes int, value uint64) []byte {
	reversed := slices.Clone(number(bytes, value))
	slices.Reverse(reversed)
	return reversed
}

func zeros(n int) []byte { return make([]byte, n) }

func join(parts ...any) []byte {
	var all []byte
	for _, part := range parts {
		switch part := part.(type) {
		case string:
			all = append(all, part...)
		case []byte:
			all = append(all, part...)
		}
	}
	return all
}

// box is a box of an MP4 file.
func box(kind string, parts ...any) []byte {
	body := join(parts...)
	return join(number(4, uint64(len(body)+8)), kind, body)
}

// mvhd is the header of a movie. Version 1 has times of 64 bits.
func mvhd(version byte, timescale, ticks uint64) []byte {
	size := 4
	if version == 1 {
		size = 8
	}
	return box("mvhd", []byte{version, 0, 0, 0}, zeros(2*size), number(4, timescale), number(size, ticks), zeros(80))
}

var ftyp = box("ftyp", "isom", zeros(4))

// mp4 is a file whose box moov is before the media.
func mp4(moov ...any) []byte { return join(ftyp, box("moov", moov...), box("mdat", zeros(9))) }

// wave is a WAV file with so many bytes of samples, of which the header says that they are declared.
func wave(format, channels, rate, sampleBits, declared uint64, samples int) []byte {
	block := channels * sampleBits / 8
	return join("RIFF", little(4, uint64(36+samples)), "WAVE", "LIST", little(4, 3), "abc\x00",
		"fmt ", little(4, 16), little(2, format), little(2, channels), little(4, rate), little(4, rate*block), little(2, block), little(2, sampleBits),
		"data", little(4, declared), zeros(samples))
}

func flac(rate, samples uint64) []byte {
	return join("fLaC", []byte{0x80}, number(3, 34), zeros(10), number(8, rate<<44|1<<41|15<<36|samples), zeros(16))
}

// ebml is an element of a Matroska file.
func ebml(id uint64, parts ...any) []byte {
	body := join(parts...)
	length := 1
	for id>>(8*length) != 0 {
		length++
	}
	return join(number(length, id), number(8, 1<<56|uint64(len(body))), body)
}

func double(value float64) []byte { return number(8, math.Float64bits(value)) }

func matroska(info ...any) []byte {
	return join(ebml(0x1a45dfa3, ebml(0x4282, "webm")), ebml(0x18538067, ebml(0xec, zeros(50)), ebml(0x1549a966, info...), ebml(0x1f43b675, zeros(20))))
}

// mp3 is a file with one frame, of MPEG-1 with 44,100 samples per second, of one channel or two.
func mp3(mono bool, tag ...any) []byte {
	header, sideInfo := []byte{0xff, 0xfb, 0x90, 0x00}, 32
	if mono {
		header, sideInfo = []byte{0xff, 0xfb, 0x90, 0xc0}, 17
	}
	frame := join(header, zeros(sideInfo), join(tag...))
	return join(frame, zeros(max(0, 417-len(frame))), zeros(100*24)) // the least that 100 frames have
}

func id3(size int) []byte {
	return join("ID3\x04\x00\x00", []byte{byte(size >> 21), byte(size >> 14 & 0x7f), byte(size >> 7 & 0x7f), byte(size & 0x7f)}, zeros(size))
}

func aiff(kind string, frames uint64, rate []byte, compression string, samples int) []byte {
	common := join(number(2, 2), number(4, frames), number(2, 16), rate, compression)
	return join("FORM", number(4, uint64(4+8+len(common)+8+8+samples)), kind, "COMM", number(4, uint64(len(common))), common, "SSND", number(4, uint64(8+samples)), zeros(8+samples))
}

// hertz44100 and hertz8000 are numbers of 80 bits.
var (
	hertz44100 = []byte{0x40, 0x0e, 0xac, 0x44, 0, 0, 0, 0, 0, 0}
	hertz8000  = []byte{0x40, 0x0b, 0xfa, 0x00, 0, 0, 0, 0, 0, 0}
)

// pdf is a file of 1,500 bytes whose first object is a dictionary.
func pdf(dictionary string) []byte {
	head := "%PDF-1.7\n%\xe2\xe3\xcf\xd3\r\n12 0 obj\n" + dictionary + "\nendobj\n"
	return join(head, bytes.Repeat([]byte{' '}, 1500-len(head)))
}

func TestRead_SaysWhatTheHeaderSays(t *testing.T) {
	t.Parallel()
	lame := func(delay, padding uint64) []byte { return join("LAME3.100", zeros(12), number(3, delay<<12|padding)) }
	for name, tt := range map[string]struct {
		file     []byte
		duration time.Duration
		pages    int
	}{
		"an MP4 file":                             {mp4(mvhd(0, 600, 6061)), 10102 * time.Millisecond, 0},
		"one with times of 64 bits":               {mp4(box("free", zeros(40)), mvhd(1, 1000, 1<<33)), 1 << 33 * time.Millisecond, 0},
		"one in fragments that has its duration":  {mp4(mvhd(0, 1000, 0), box("mvex", box("mehd", zeros(4), number(4, 4500)))), 4500 * time.Millisecond, 0},
		"one in fragments, with 64 bits":          {mp4(mvhd(0, 1000, 0), box("mvex", box("trex", zeros(24)), box("mehd", []byte{1, 0, 0, 0}, number(8, 4500)))), 4500 * time.Millisecond, 0},
		"a QuickTime file of before ftyp":         {join(box("wide"), box("moov", mvhd(0, 600, 600), zeros(8)), box("mdat", zeros(9))), time.Second, 0},
		"one whose media have a size of 64 bits":  {join(ftyp, box("moov", mvhd(0, 600, 600)), number(4, 1), "mdat", number(8, 20), zeros(4)), time.Second, 0},
		"one whose media extend to the end":       {join(ftyp, box("moov", mvhd(0, 600, 600)), number(4, 0), "mdat", zeros(30)), time.Second, 0},
		"one whose tables are longer than a head": {mp4(mvhd(0, 600, 600), box("trak", zeros(filehead.Length))), time.Second, 0},
		"a WAV file":                               {wave(1, 2, 8000, 16, 16000, 16000), 500 * time.Millisecond, 0},
		"one of floating point numbers":            {wave(3, 1, 8000, 32, 16000, 16000), 500 * time.Millisecond, 0},
		"a long WAV file":                          {join("RF64", little(4, 0xffffffff), "WAVE", "ds64", little(4, 28), zeros(8), little(8, 4000), zeros(12), wave(1, 1, 8000, 8, 0xffffffff, 4000)[12:]), 500 * time.Millisecond, 0},
		"a FLAC file":                              {flac(44100, 441*5), 50 * time.Millisecond, 0},
		"a FLAC file after a tag":                  {join(id3(300), flac(44100, 441*5)), 50 * time.Millisecond, 0},
		"a WebM file":                              {matroska(ebml(0x4489, double(1234.6))), 1235 * time.Millisecond, 0},
		"one with a unit, and a short number":      {matroska(ebml(0x4489, number(4, uint64(math.Float32bits(2.5)))), ebml(0x2ad7b1, number(4, 1_000_000_000))), 2500 * time.Millisecond, 0},
		"an MP3 file":                              {mp3(false, "Xing", number(4, 1), number(4, 100)), 2612 * time.Millisecond, 0},
		"one of one channel, with all of a tag":    {mp3(true, "Info", number(4, 15), number(4, 100), number(4, 300), zeros(100), number(4, 50), lame(576, 1000)), 2577 * time.Millisecond, 0},
		"one after a picture":                      {join(id3(200_000), id3(20), mp3(false, "Xing", number(4, 1), number(4, 100))), 2612 * time.Millisecond, 0},
		"one of Fraunhofer":                        {mp3(false, "VBRI", zeros(6), number(4, 400), number(4, 100)), 2612 * time.Millisecond, 0},
		"an AIFF file":                             {aiff("AIFF", 4000, hertz8000, "", 16000), 500 * time.Millisecond, 0},
		"an AIFF-C file":                           {aiff("AIFC", 4410, hertz44100, "sowt\x00\x00", 17640), 100 * time.Millisecond, 0},
		"a linearized PDF file":                    {pdf("<</Linearized 1/L 1500/H[ 687 126]/O 14/E 8000/N 23/T 1200>>"), 0, 23},
		"one with spaces and comments":             {pdf("<<\n/Linearized 1.0 % yes\r /N 1\n/L 1500 /H [ 687 126 100 9 ] >>"), 0, 1},
		"an MP3 file with a checksum before a tag": {join([]byte{0xff, 0xfa, 0x90, 0x00}, zeros(34), "Xing", number(4, 1), number(4, 100), zeros(2800)), 2612 * time.Millisecond, 0},
	} {
		head := filehead.Read(tt.file)
		if got := head.Of(int64(len(tt.file))); got.Duration != tt.duration || got.Pages != tt.pages {
			t.Errorf("%s: %v and %d pages, want %v and %d", name, got.Duration, got.Pages, tt.duration, tt.pages)
		}
		if short := head.Of(10); short != (filehead.Head{}) && head.MinBytes > 10 {
			t.Errorf("%s: the first 10 bytes of it: %+v", name, short)
		}
	}
}

func TestRead_DoesNotGuess(t *testing.T) {
	t.Parallel()
	for name, file := range map[string][]byte{
		"nothing":                           {},
		"a text":                            []byte("a text of which nobody knows how long it is"),
		"a photo":                           join("\xff\xd8\xff\xe0", zeros(40)),
		"an MP4 file without a timescale":   mp4(mvhd(0, 0, 600)),
		"one without a duration":            mp4(mvhd(0, 600, 0)),
		"one of unknown duration":           mp4(mvhd(0, 600, math.MaxUint32)),
		"one of unknown duration, 64 bits":  mp4(mvhd(1, 600, math.MaxUint64)),
		"one of an absurd duration":         mp4(mvhd(1, 1, 3_600_000_001)),
		"one of an unknown version":         mp4(mvhd(2, 600, 600)),
		"one with two headers":              mp4(mvhd(0, 600, 600), mvhd(0, 600, 1200)),
		"one with two movies":               join(mp4(mvhd(0, 600, 600)), box("moov", mvhd(0, 600, 600))),
		"one in fragments":                  mp4(mvhd(0, 600, 600), box("mvex", box("trex", zeros(24)))),
		"one with a header that is cut off": mp4(box("mvhd", zeros(4), zeros(8), number(4, 600))),
		"one with a part outside of it":     join(ftyp, box("moov", number(4, 5000), "mvhd", mvhd(0, 600, 600)[8:]), box("mdat", zeros(9))),
		"one whose movie is at its end":     join(ftyp, box("mdat", zeros(filehead.Length)), box("moov", mvhd(0, 600, 600))),
		"one that is cut off":               mp4(mvhd(0, 600, 600))[:len(mp4(mvhd(0, 600, 600)))-1],
		"one with a box of no size":         join(ftyp, box("moov", mvhd(0, 600, 600)), number(4, 7), "free", zeros(20)),
		"one with a box of a negative size": join(ftyp, box("moov", mvhd(0, 600, 600)), number(4, 1), "mdat", number(8, math.MaxUint64), zeros(4)),
		"a box of another file":             join(box("jP  ", zeros(4)), box("moov", mvhd(0, 600, 600)), zeros(20)),
		"a WAV file of a pipe":              wave(1, 2, 8000, 16, 0xffffffff, 16000),
		"one without samples":               wave(1, 2, 8000, 16, 0, 0),
		"one that is cut off ":              wave(1, 2, 8000, 16, 16001, 16000),
		"one with compression":              wave(0x55, 2, 8000, 16, 16000, 16000),
		"one with another rate":             bytes.Replace(wave(1, 2, 8000, 16, 16000, 16000), little(4, 32000), little(4, 64000), 1),
		"one without a rate":                wave(1, 2, 0, 16, 16000, 16000),
		"one without a format":              join("RIFF", little(4, 12), "WAVE", "data", little(4, 400), zeros(400)),
		"one with two formats":              bytes.Replace(wave(1, 2, 8000, 16, 16000, 16000), []byte("data"), wave(1, 1, 8000, 8, 0, 0)[24:48], 1),
		"a FLAC file of unknown length":     flac(44100, 0),
		"one of no rate":                    flac(0, 500),
		"one with another first block":      bytes.Replace(flac(44100, 441*5), []byte{0x80, 0, 0, 34}, []byte{0x84, 0, 0, 34}, 1),
		"a WebM file of a browser":          matroska(ebml(0x2ad7b1, number(3, 1_000_000))),
		"one with a negative duration":      matroska(ebml(0x4489, double(-5))),
		"one with an infinite duration":     matroska(ebml(0x4489, double(math.Inf(1)))),
		"one with no number":                matroska(ebml(0x4489, double(math.NaN()))),
		"one with no unit":                  matroska(ebml(0x4489, double(5)), ebml(0x2ad7b1, number(1, 0))),
		"one with two durations":            matroska(ebml(0x4489, double(5)), ebml(0x4489, double(6))),
		"one of an absurd duration ":        matroska(ebml(0x4489, double(3.7e12))),
		"one that is cut off  ":             matroska(ebml(0x4489, double(5)))[:len(matroska(ebml(0x4489, double(5))))-1],
		"one whose element is too long":     matroska(number(2, 0x4489), number(1, 0xff), double(5)),
		"an MP3 file without a tag":         mp3(false),
		"one of more frames than it has":    mp3(false, "Xing", number(4, 1), number(4, 1<<32-1)),
		"one of Fraunhofer with more":       mp3(false, "VBRI", zeros(6), number(4, 0), number(4, 1<<32-1)),
		"one of no bytes, with more frames": mp3(false, "Xing", number(4, 3), number(4, 1<<32-1), number(4, 0)),
		"a FLAC file of more than it has":   flac(44100, 1<<36-1),
		"an AIFF file of no channels":       join("FORM", number(4, 46), "AIFF", "COMM", number(4, 18), number(2, 0), number(4, 1<<32-1), number(2, 16), hertz44100, "SSND", zeros(8)),
		"one without a number of frames":    mp3(false, "Xing", number(4, 2), number(4, 100)),
		"one with no frames":                mp3(false, "Xing", number(4, 1), number(4, 0)),
		"one of more bytes than it has":     mp3(false, "Xing", number(4, 3), number(4, 100), number(4, 1<<20)),
		"one with a tag of another place":   mp3(true, zeros(15), "Xing", number(4, 1), number(4, 100)),
		"one of another layer":              join([]byte{0xff, 0xfd}, mp3(false, "Xing", number(4, 1), number(4, 100))[2:]),
		"one of no rate ":                   join([]byte{0xff, 0xfb, 0x9c}, mp3(false, "Xing", number(4, 1), number(4, 100))[3:]),
		"one after a picture that is long":  join(id3(filehead.Length), mp3(false, "Xing", number(4, 1), number(4, 100))),
		"one after a tag of another size":   join("ID3\x04\x00\x00\x00\x00\x80\x00", mp3(false, "Xing", number(4, 1), number(4, 100))),
		"an AIFF file of more samples":      aiff("AIFF", 4001, hertz8000, "", 15000),
		"one of a negative rate":            aiff("AIFF", 4000, join([]byte{0xc0}, hertz8000[1:]), "", 16000),
		"one of no rate  ":                  aiff("AIFF", 4000, zeros(10), "", 16000),
		"one of an infinite rate":           aiff("AIFF", 4000, []byte{0x7f, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0}, "", 16000),
		"one with compression ":             aiff("AIFC", 4410, hertz44100, "ima4\x00\x00", 17640),
		"a PDF file that is not linearized": pdf("<</Type/Catalog/Pages 2>>"),
		"one of another length":             pdf("<</Linearized 1/L 1499/H[ 687 126]/O 14/E 8000/N 23/T 1200>>"),
		"one that has grown":                append(pdf("<</Linearized 1/L 1500/O 14/N 23>>"), "revised"...),
		"one without pages":                 pdf("<</Linearized 1/L 1500/O 14>>"),
		"one with no pages":                 pdf("<</Linearized 1/L 1500/N 0>>"),
		"one with negative pages":           pdf("<</Linearized 1/L 1500/N -3>>"),
		"one with too many pages":           pdf("<</Linearized 1/L 1500/N 10000001>>"),
		"one with an overflow":              pdf("<</Linearized 1/L 1500/N 99999999999999999999>>"),
		"one with two numbers of pages":     pdf("<</Linearized 1/L 1500/N 3/N 4>>"),
		"one with a text":                   pdf("<</Linearized 1/L 1500/N 3/X(/N 4)>>"),
		"one with a dictionary":             pdf("<</Linearized 1/L 1500/X<</N 3>>/N 3>>"),
		"one with an array without an end":  pdf("<</Linearized 1/L 1500/N 3/H[ 1 2>>"),
		"one with a long comment":           pdf("%" + strings.Repeat("x", 1000) + "\n<</Linearized 1/L 1500/N 3>>"),
		"one that has it in a comment":      pdf("% <</Linearized 1/L 1500/N 3>>"),
		"one with parts of a page":          pdf("<</Linearized 1/L 1500/N 2.5>>"),
		"only the start of a PDF file":      []byte("%PDF-1.7 % no end"),
	} {
		if got := filehead.Read(file).Of(int64(len(file))); got != (filehead.Head{}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A header that is cut off anywhere says what the whole one says, or nothing.
func TestRead_OfAPartIsNeverDifferent(t *testing.T) {
	t.Parallel()
	for _, file := range seeds() {
		whole := filehead.Read(file)
		for n := range file {
			if n > 3000 {
				break
			}
			if part := filehead.Read(file[:n:n]); part.Duration != 0 && part.Duration != whole.Duration || part.Pages != 0 && part.Pages != whole.Pages {
				t.Errorf("%.12q: %+v of %d bytes, %+v of all", file, part, n, whole)
			}
		}
	}
}

// seeds are one file of each format.
func seeds() [][]byte {
	return [][]byte{
		mp4(mvhd(1, 600, 6000), box("mvex", box("mehd", zeros(4), number(4, 45)))), wave(1, 2, 8000, 16, 160, 160), flac(44100, 441),
		matroska(ebml(0x4489, double(1234.5)), ebml(0x2ad7b1, number(3, 1_000_000))), join(id3(5), mp3(false, "Xing", number(4, 15), number(4, 100), number(4, 400), zeros(104), "LAME3.100", zeros(12), number(3, 0x240123))),
		mp3(false, "VBRI", zeros(6), number(4, 400), number(4, 100)), aiff("AIFC", 441, hertz44100, "sowt\x00\x00", 1764), pdf("<</Linearized 1/L 1500/H[ 687 126]/O 14/N 23>>"),
	}
}

func FuzzRead(f *testing.F) {
	for _, file := range seeds() {
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		head := filehead.Read(file[:len(file):len(file)])
		if head.Duration < 0 || head.Duration > filehead.MaxDuration || head.Duration%time.Millisecond != 0 || head.Pages < 0 || head.Pages > filehead.MaxPages || head.MinBytes < 0 || head.MaxBytes < 0 {
			t.Errorf("out of bounds: %+v", head)
		}
		if known := head.Duration > 0 || head.Pages > 0; !known && head != (filehead.Head{}) {
			t.Errorf("sizes of nothing: %+v", head)
		}
		if len(file) >= filehead.Length {
			if longer := filehead.Read(append(file[:filehead.Length:filehead.Length], 1, 2, 3)); longer != filehead.Read(file) {
				t.Errorf("%+v, and with more bytes %+v", head, longer)
			}
		}
		if size := head.MinBytes; size > 0 && head.Of(size-1) != (filehead.Head{}) || head.Of(max(size, 1)) != head {
			t.Errorf("%+v is not that of %d bytes", head, size)
		}
	})
}

// Whatever a header says is read as it is said.
func FuzzRead_ReturnsWhatWasWritten(f *testing.F) {
	f.Add(uint32(600), uint64(6061))
	f.Add(uint32(1), uint64(3_600_000_000))
	f.Add(uint32(math.MaxUint32), uint64(math.MaxUint64-1))
	f.Fuzz(func(t *testing.T, perSecond uint32, n uint64) {
		want := time.Duration(0)
		if seconds := float64(n) / float64(perSecond); perSecond > 0 && seconds <= filehead.MaxDuration.Seconds() {
			want = time.Duration(math.Round(seconds*1000)) * time.Millisecond
		}
		check := func(format string, file []byte) {
			t.Helper()
			if got := filehead.Read(file).Duration; (got - want).Abs() > time.Millisecond {
				t.Errorf("%s: %v, not %v", format, got, want)
			}
		}
		if n != math.MaxUint64 {
			check("MP4", mp4(mvhd(1, uint64(perSecond), n)))
		}
		if perSecond < 1<<20 && n < 1<<36 {
			check("FLAC", flac(uint64(perSecond), n))
		}
		if perSecond > 0 && n < 1<<53 {
			check("Matroska", matroska(ebml(0x4489, double(float64(n)/float64(perSecond))), ebml(0x2ad7b1, number(4, 1_000_000_000))))
		}
		pages := 0
		if n <= filehead.MaxPages {
			pages = int(n)
		}
		if got := filehead.Read(pdf(fmt.Sprintf("<</Linearized 1/L 1500/N %d>>", n))).Pages; got != pages {
			t.Errorf("PDF: %d, not %d", got, pages)
		}
	})
}

func TestRead_AllocatesNothingOfLongFiles(t *testing.T) {
	files := seeds()
	for _, file := range files[:7] {
		if n := testing.AllocsPerRun(10, func() { filehead.Read(file) }); n != 0 {
			t.Errorf("%.12q: %v allocations", file, n)
		}
	}
}
