-- name: Stems :one
-- What the forms of words have in common, in a language that PostgreSQL knows.
SELECT array_agg(coalesce((ts_lexize((sqlc.arg(language)::text || '_stem')::regdictionary, word))[1], word) ORDER BY n)::text[]
FROM unnest(sqlc.arg(words)::text[]) WITH ORDINALITY AS w (word, n);
