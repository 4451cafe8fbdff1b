package postgres

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// uuidCodec is pgtype.UUIDCodec, which scans a uuid.UUID by printing and parsing it: the type is a
// sql.Scanner.
type uuidCodec struct{ pgtype.UUIDCodec }

// PlanScan implements pgtype.Codec.
func (c uuidCodec) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, ok := target.(*uuid.UUID); ok && format == pgtype.BinaryFormatCode {
		return uuidScan{}
	}
	return c.UUIDCodec.PlanScan(m, oid, format, target)
}

type uuidScan struct{}

// Scan implements pgtype.ScanPlan.
func (uuidScan) Scan(src []byte, dst any) error {
	id, ok := dst.(*uuid.UUID)
	if !ok || len(src) != len(id) {
		return fmt.Errorf("cannot scan %d bytes into %T", len(src), dst)
	}
	copy(id[:], src)
	return nil
}

// registerTypes adds the types of this package to a new connection.
func registerTypes(next func(context.Context, *pgx.Conn) error) func(context.Context, *pgx.Conn) error {
	return func(ctx context.Context, conn *pgx.Conn) error {
		conn.TypeMap().RegisterType(&pgtype.Type{Name: "uuid", OID: pgtype.UUIDOID, Codec: uuidCodec{}})
		return next(ctx, conn)
	}
}
