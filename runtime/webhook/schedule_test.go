package webhook

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// Ten attempts in 75 hours, as Standard Webhooks recommends.
func TestSchedule_HasTenAttempts(t *testing.T) {
	t.Parallel()
	total := time.Duration(0)
	for attempt := 1; attempt < maxAttempts; attempt++ {
		delay := retryDelay(attempt)
		if delay < schedule[attempt-1] || delay > schedule[attempt-1]*11/10 {
			t.Errorf("attempt %d: %s", attempt, delay)
		}
		total += schedule[attempt-1]
	}
	if maxAttempts != 10 || total.Truncate(time.Hour) != 75*time.Hour {
		t.Errorf("%d attempts in %s", maxAttempts, total)
	}
	if retryDelay(0) < schedule[0] || retryDelay(99) < schedule[8] {
		t.Error("an attempt out of range")
	}
}

// The guide tells receivers when the attempts are made.
func TestSchedule_IsThatOfTheGuide(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/guides/receive-webhooks.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []time.Duration
	for _, row := range regexp.MustCompile(`(?m)^\| \d+ to \d+ \| (.+) \|$`).FindAllStringSubmatch(string(text), -1) {
		for delay := range strings.SplitSeq(row[1], ", ") {
			d, err := time.ParseDuration(strings.NewReplacer(" ", "", "min", "m").Replace(delay))
			if err != nil {
				t.Fatal(err)
			}
			documented = append(documented, d)
		}
	}
	if !slices.Equal(documented, schedule) {
		t.Errorf("the guide has %s, want %s", documented, schedule)
	}
}

func TestPause_GrowsUpToAMinute(t *testing.T) {
	t.Parallel()
	for failures, want := range map[int]time.Duration{0: 0, 2: 0, 3: time.Second, 4: 2 * time.Second, 8: 32 * time.Second, 9: time.Minute, 100_000: time.Minute} {
		if got := pause(failures); got != want {
			t.Errorf("%d failures: %s, want %s", failures, got, want)
		}
	}
}

func FuzzDecodeDelivery(f *testing.F) {
	d := delivery{ID: "1-2", Type: TestType, ContentType: "application/json", at: time.UnixMicro(1_700_000_000_000_001), body: []byte("{}\n{}")}
	payload, err := d.encode()
	if err != nil {
		f.Fatal(err)
	}
	if got, err := decodeDelivery(payload); err != nil || got.ID != d.ID || got.Type != d.Type || got.ContentType != d.ContentType || !got.at.Equal(d.at) || string(got.body) != string(d.body) {
		f.Fatalf("%+v, %v", got, err)
	}
	f.Add(payload)
	f.Add([]byte("1234567"))
	f.Add([]byte("12345678{}"))
	f.Fuzz(func(t *testing.T, payload []byte) {
		d, err := decodeDelivery(payload)
		if err != nil {
			return
		}
		again, err := d.encode()
		if err != nil {
			t.Fatal(err)
		}
		if second, err := decodeDelivery(again); err != nil || second.ID != d.ID || string(second.body) != string(d.body) {
			t.Errorf("%+v, %v", second, err)
		}
	})
}
