package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"mediastack.dev/runtime/capture"
)

// searchedItems is how many items the small account has.
const searchedItems = 10_000

// vocabulary are words made of syllables, so that many have the same beginning.
var vocabulary = func() []string {
	random := rand.New(rand.NewPCG(52, 1))
	syllables := strings.Fields("ba be bo ca ce co da de do fa fi fo ga ge go ha he hi la le lo ma me mo na ne no pa pe po ra re ri sa se so ta te to va ve vi za")
	seen, words := map[string]bool{}, []string{}
	for len(words) < 20_000 {
		word := ""
		for range 2 + random.IntN(3) {
			word += syllables[random.IntN(len(syllables))]
		}
		if !seen[word] {
			seen[word], words = true, append(words, word)
		}
	}
	return words
}()

// wordAt returns a word by a number from 0 to 1: as in a language, a few words are most of a text.
func wordAt(at float64) string {
	return vocabulary[min(len(vocabulary)-1, int(math.Pow(float64(len(vocabulary)), at))-1)]
}

// rareItems is how many items of an account of any size have each rare word.
const rareItems = 3

// captions returns captions of 4 to 16 words. Each item also has a word that rareItems have.
func captions(items int) func(n int) string {
	return func(n int) string {
		random := rand.New(rand.NewPCG(52, uint64(n)))
		words := make([]string, 4+random.IntN(13))
		for i := range words {
			words[i] = wordAt(random.Float64())
		}
		return strings.Join(words, " ") + fmt.Sprintf(" Quartz%dx", n%(items/rareItems))
	}
}

// searchQuestion is a search of an account with so many items. Least is how many its first page has.
type searchQuestion struct {
	what  string
	query func(items int) url.Values
	least int
}

// words returns the parameters of a search by words.
func words(text func(items int) string) func(items int) url.Values {
	return func(items int) url.Values { return url.Values{"q": {text(items)}} }
}

// ask searches once, and again if the page is short: PostgreSQL may have been too busy to combine words in time.
func (q searchQuestion) ask(ctx context.Context, e *endpoint, items int) error {
	query := q.query(items)
	query.Set("limit", "20")
	var found []document
	for range 2 {
		text, err := e.get(ctx, "/media/get?"+query.Encode())
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &found); err != nil || len(found) >= q.least {
			return err
		}
	}
	return fmt.Errorf("%s gave %d items of %d", query.Encode(), len(found), items)
}

// searchQuestions are what is measured: searches by words, and by when and where photos were made.
var searchQuestions = []searchQuestion{
	{"common word", words(func(int) string { return wordAt(rand.Float64() / 10) }), 1},
	{"word of some items", words(func(int) string { return wordAt(0.3 + rand.Float64()/5) }), 0},
	{"rare word", words(func(items int) string { return fmt.Sprintf(`"quartz%dx"`, rand.IntN(items/rareItems)) }), rareItems},
	{"absent word", words(func(int) string { return fmt.Sprintf("absent%d", rand.IntN(1000)) }), 0},
	{"prefix of three letters", words(func(int) string { return wordAt(rand.Float64())[:3] }), 0},
	{"prefix of a rare word", words(func(items int) string { return fmt.Sprintf("quartz%d", items/rareItems/2+rand.IntN(items/rareItems/2)) }), 1},
	{"two words", words(func(int) string { return wordAt(rand.Float64()) + " " + wordAt(rand.Float64()) }), 0},
	{"common and rare word", words(func(items int) string {
		return fmt.Sprintf("%s quartz%dx", vocabulary[0], rand.IntN(items/rareItems))
	}), 0},
	{"phrase", words(func(int) string { return `"` + wordAt(rand.Float64()/2) + " " + wordAt(rand.Float64()/2) + `"` }), 0},
	{"word without another one", words(func(int) string { return wordAt(rand.Float64()/2) + " -" + wordAt(rand.Float64()/2) }), 0},
	{"by capture", func(int) url.Values { return url.Values{"sort": {"-captured"}} }, 20},
	{"day of capture", func(int) url.Values {
		day := firstCapture.AddDate(0, 0, rand.IntN(captureDays))
		return url.Values{"capturedFrom": {day.Format(time.RFC3339)}, "capturedTo": {day.AddDate(0, 0, 1).Format(time.RFC3339)}}
	}, 0},
	{"near home", func(int) url.Values { return url.Values{"near": {capture.Near{Location: home, Radius: 500}.String()}} }, 1},
	{"near a place of a journey", func(items int) url.Values {
		return url.Values{"near": {capture.Near{Location: *captures(rand.IntN(items/2)*2 + 1).Location, Radius: 1000}.String()}}
	}, 1},
}

// Photos are made in 20 years before the first upload.
const captureDays = 20 * 365

var firstCapture = time.Date(2005, 1, 1, 0, 0, 0, 0, time.UTC)

var home = capture.Location{Latitude: 47.3769, Longitude: 8.5417}

// captures returns what the file of an item says: every second one was made around home, the others anywhere.
func captures(n int) capture.Capture {
	random := rand.New(rand.NewPCG(53, uint64(n)))
	at := home
	if n%2 == 0 {
		at.Latitude, at.Longitude = at.Latitude+random.NormFloat64()/100, at.Longitude+random.NormFloat64()/100
	} else {
		at.Latitude, at.Longitude = random.Float64()*140-60, random.Float64()*360-180
	}
	made := firstCapture.Add(time.Duration(random.Int64N(int64(captureDays * 24 * time.Hour))))
	return capture.Capture{At: made.Format("2006-01-02T15:04:05"), Camera: "Canon EOS R5", Location: &at}
}

// search measures searches by words, and what the index costs uploads.
func search(ctx context.Context, b *bench) error {
	sizes := []int{searchedItems, b.Items}
	made, err := b.env.tenants(ctx, "small", "large", "uploads")
	if err != nil {
		return err
	}
	served, err := b.env.serve(ctx, service, made[2])
	if err != nil {
		return err
	}
	endpoints := make([]*endpoint, len(sizes))
	for i, items := range sizes {
		started := time.Now()
		if _, err := b.env.seed(ctx, made[i], seed{items: items, access: third, groups: scaleGroups, caption: captions(items), capture: captures}); err != nil {
			return err
		}
		b.say("%s: %d items loaded in %s", b.name, items, time.Since(started).Round(time.Second/10))
		one := *served
		one.key = made[i].APIKey
		endpoints[i] = &one
	}
	if err := b.env.vacuum(ctx); err != nil {
		return err
	}
	c := b.compareTimes(fmt.Sprintf("%d items", sizes[0]), fmt.Sprintf("%d items", sizes[1]), service, postgres)
	for _, q := range searchQuestions {
		var sides []side
		for i, items := range sizes {
			sides = append(sides, side{name: fmt.Sprintf("%d items", items), call: func(ctx context.Context, _ int64) error {
				return q.ask(ctx, endpoints[i], items)
			}})
		}
		if err := c.measureTimes(ctx, q.what, load{clients: 1, rounds: b.Rounds, calls: int64(b.Calls)}, sides, maximum(2)); err != nil {
			return err
		}
	}
	c.print()
	// Its uploads without the index can't be found by words: so it comes last.
	if err := b.indexedUploads(ctx, made[2], served); err != nil {
		return err
	}
	return b.noteTables(ctx)
}

// indexedUploads compares uploads with the searched text and the index of words to those without.
func (b *bench) indexedUploads(ctx context.Context, t tenant, e *endpoint) error {
	conn, err := pgx.Connect(ctx, b.env.server.AdminURL(database))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	run := func(statements ...string) func(context.Context) error {
		return func(ctx context.Context) error {
			for _, statement := range statements {
				if _, err := conn.Exec(ctx, statement); err != nil {
					return err
				}
			}
			return nil
		}
	}
	c := b.compare("upload", "ratio of uploads/s", []string{"upload", "with/s", "without/s"}, client, service, postgres, store)
	with, without := b.captionedSide(e), b.captionedSide(e)
	with.name, without.name = "with", "without"
	// An index that is not ready gets no entries. To make it again would write as much as many uploads, just before the other side is measured.
	const ready = `UPDATE pg_index SET indisready = %t WHERE indexrelid = 'item_words'::regclass`
	without.before = run(`ALTER TABLE stored_item DISABLE TRIGGER item_search_text`, fmt.Sprintf(ready, false))
	without.after = run(fmt.Sprintf(ready, true), `ALTER TABLE stored_item ENABLE TRIGGER item_search_text`)
	if err := c.measure(ctx, "upload with a caption", load{clients: b.Clients, rounds: b.Rounds, length: b.Length}, []side{with, without},
		pair{against: 1, target: minimum(0.95), name: "upload with a caption", cells: []string{"upload with a caption"}}); err != nil {
		return err
	}
	c.print()
	return nil
}

// captionedSide uploads and seals small files with captions.
func (b *bench) captionedSide(e *endpoint) side {
	text := captions(searchedItems)
	return side{call: func(ctx context.Context, n int64) error {
		draft, err := e.store(ctx, newForm("bench.bin", fmt.Append(nil, n), "caption", text(int(n))))
		if err != nil {
			return err
		}
		_, err = e.seal(ctx, draft.MediaID)
		return err
	}}
}
