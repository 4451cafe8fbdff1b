package postgres

import (
	"context"
	"encoding/json"

	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/media"
	"mediastack.dev/runtime/postgres/internal/sqlgen"
)

// searchOf returns what searches of an account look in.
func searchOf(stored []byte) (search account.Search) {
	_ = json.Unmarshal(stored, &search) // written by searchJSON; null is the default
	return search
}

// searchJSON returns null for the default, as in the rows of before.
func searchJSON(search account.Search) []byte {
	if search.Equal(account.Search{}) {
		return nil
	}
	text, _ := json.Marshal(search) // of texts, which can be encoded
	return text
}

// Stems implements media.Store, by the dictionaries that PostgreSQL has.
func (s Items) Stems(ctx context.Context, scope media.Scope, language string, words []string) ([]string, error) {
	return repeat(ctx, s.Store, scope.AccountID, func(ctx context.Context) ([]string, error) {
		stems, err := s.queries.Stems(ctx, sqlgen.StemsParams{Language: language, Words: words})
		return stems, toFault(err, "find the stems of words")
	})
}
