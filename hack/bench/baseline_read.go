package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"mediastack.dev/runtime/media"
)

// Settings of the bare handler.
const (
	bareDatabase = "BENCH_BARE_DATABASE"
	bareApp      = "BENCH_BARE_APP"
	bareBase     = "BENCH_BARE_BASE"
)

// bareHandler answers reads as the runtime does, with nothing around them: net/http,
// the same SQL through pgx, the same JSON. It knows one app, asks for no key, and
// puts a text of the right length where the runtime signs an address.
type bareHandler struct {
	pool  *pgxpool.Pool
	appID uuid.UUID
	base  string
}

func mountBare(ctx context.Context, mux *http.ServeMux) error {
	cfg, err := pgxpool.ParseConfig(os.Getenv(bareDatabase))
	if err != nil {
		return err
	}
	cfg.MaxConns = 20 // as many as the runtime has by default
	h := &bareHandler{base: os.Getenv(bareBase)}
	if h.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return err
	}
	if h.appID, err = uuid.Parse(os.Getenv(bareApp)); err != nil {
		return err
	}
	mux.HandleFunc("GET /media/get/{id}", h.get)
	mux.HandleFunc("GET /media/get", h.list)
	return nil
}

// serveBare starts the bare handler for a tenant. name is what tables call it; its documents name files below base.
func (env *environment) serveBare(ctx context.Context, name string, t tenant, base string) (*endpoint, error) {
	return env.serveBaseline(ctx, name, bare, bareDatabase+"="+env.server.URL(database), bareApp+"="+t.AppID.String(), bareBase+"="+base)
}

const (
	itemColumns = "id, account_id, app_id, file_name, access, caption, group_label, objects, bytes, created_at, sealed_at, metadata"
	getSQL      = "SELECT " + itemColumns + " FROM item WHERE app_id = $1 AND id = $2"
	listSQL     = "SELECT " + itemColumns + " FROM item WHERE app_id = $1 AND sealed_at IS NOT NULL ORDER BY id DESC LIMIT $2 OFFSET $3"
	countSQL    = `SELECT coalesce(sum(public_items), 0)::bigint, coalesce(sum(private_items), 0)::bigint FROM app_total WHERE app_id = $1`
)

type bareItem struct {
	id, accountID, appID             uuid.UUID
	name, access, caption, groupName string
	objects                          []media.Object // not media.Objects, which is scanned by hand
	bytes                            int64
	created                          time.Time
	sealed                           *time.Time
	metadata                         map[string]string
}

func scan(row pgx.Row) (bareItem, error) {
	var i bareItem
	err := row.Scan(&i.id, &i.accountID, &i.appID, &i.name, &i.access, &i.caption, &i.groupName, &i.objects, &i.bytes, &i.created, &i.sealed, &i.metadata)
	return i, err
}

// bareDocument has the fields of the service's document, in their order.
type bareDocument struct {
	MediaID          uuid.UUID `json:"mediaId"`
	OriginalFileName string    `json:"originalFileName"`
	MimeType         string    `json:"mimeType"`
	Size             int64     `json:"size"`
	Access           string    `json:"access"`
	File             string    `json:"file"`
	Thumbnail        string    `json:"thumbnail"`
	Caption          string    `json:"caption"`
	Group            string    `json:"group"`
	Temp             bool      `json:"temp,omitempty"`
	Original         string    `json:"original,omitempty"`

	CreatedAt time.Time  `json:"createdAt"`
	SealedAt  *time.Time `json:"sealedAt,omitempty"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
	SHA256    string     `json:"sha256"`

	Metadata map[string]string `json:"metadata"`
}

func (h *bareHandler) document(i bareItem) bareDocument {
	d := bareDocument{MediaID: i.id, OriginalFileName: i.name, Access: i.access, Caption: i.caption, Group: i.groupName, Temp: i.sealed == nil,
		CreatedAt: i.created.UTC().Truncate(time.Millisecond), Metadata: i.metadata}
	if i.sealed == nil {
		d.ExpiresAt = new(d.CreatedAt.Add(24 * time.Hour))
	} else {
		d.SealedAt = new(i.sealed.UTC().Truncate(time.Millisecond))
	}
	_, converted := media.Objects(i.objects).Find(media.WebP)
	for _, object := range i.objects {
		name := i.name
		if object.Variant != media.Original {
			name = strings.TrimSuffix(name, filepath.Ext(name)) + ".webp"
		}
		address := h.base + "/media/file/" + i.id.String() + "/" + string(object.Variant) + "/" + url.PathEscape(name)
		if i.access != "public" || converted && object.Variant == media.Original {
			address += "?expires=" + strconv.FormatInt(time.Now().Unix(), 10) + "&signature=" + noSignature
		}
		if object.Variant == media.Thumbnail {
			d.Thumbnail = address
			continue
		}
		if object.Variant == media.Original {
			d.SHA256 = object.SHA256.String()
		}
		d.Original = d.File // the conversion comes after the original
		d.File, d.MimeType, d.Size = address, object.MimeType, object.Bytes
	}
	return d
}

// noSignature is as long as a signature.
const noSignature = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

func (h *bareHandler) get(w http.ResponseWriter, r *http.Request) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	item, err := scan(h.pool.QueryRow(r.Context(), getSQL, h.appID, id))
	answer(w, err, func() any { return h.document(item) })
}

// list makes both queries of a list, which the service makes in one: without the count there are no
// X-Total-Count and Link.
func (h *bareHandler) list(w http.ResponseWriter, r *http.Request) {
	limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var public, private int64
	err = h.pool.QueryRow(r.Context(), countSQL, h.appID).Scan(&public, &private)
	if err != nil {
		answer(w, err, nil)
		return
	}
	rows, err := h.pool.Query(r.Context(), listSQL, h.appID, limit, 0)
	if err != nil {
		answer(w, err, nil)
		return
	}
	defer rows.Close()
	documents := make([]bareDocument, 0, limit)
	for rows.Next() {
		item, err := scan(rows)
		if err != nil {
			answer(w, err, nil)
			return
		}
		documents = append(documents, h.document(item))
	}
	total := public + private
	last := max(1, (total+int64(limit)-1)/int64(limit))
	page := func(relation string, number int64) string {
		return fmt.Sprintf(`<%s/media/get?limit=%d&page=%d>; rel="%s"`, h.base, limit, number, relation)
	}
	links := page("first", 1) + ", "
	if last > 1 {
		links += page("next", 2) + ", "
	}
	w.Header().Set("Link", links+page("last", last))
	w.Header().Set("X-Total-Count", strconv.FormatInt(total, 10))
	answer(w, rows.Err(), func() any { return documents })
}

func answer(w http.ResponseWriter, err error, document func() any) {
	if errors.Is(err, pgx.ErrNoRows) {
		http.Error(w, "missing", http.StatusNotFound)
		return
	}
	var body bytes.Buffer
	if err == nil {
		encoder := json.NewEncoder(&body)
		encoder.SetEscapeHTML(false)
		err = encoder.Encode(document())
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	_, _ = w.Write(body.Bytes())
}
