package postgres_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"
)

// firstChecked is the first migration that has to let the programs of before serve (docs/guides/migrations.md).
const firstChecked = 25

// releases are the newest migrations of the releases, without the first one, whose programs do not compare schema_compatibility.
// A contract excludes the programs before one of them.
var releases = map[int64]bool{}

// Statements of a migration in a transaction. The first group is the table that they lock.
var (
	createTable  = regexp.MustCompile(`^CREATE TABLE (\w+) `)
	references   = regexp.MustCompile(` REFERENCES (\w+)`)
	createIndex  = regexp.MustCompile(`^CREATE (?:UNIQUE )?INDEX \w+ ON (\w+) `)
	insertInto   = regexp.MustCompile(`^INSERT INTO (\w+) ?\(`)
	alterTable   = regexp.MustCompile(`^ALTER TABLE (\w+) (.*)$`)
	takesALock   = regexp.MustCompile(`^(?:CREATE OR REPLACE VIEW|CREATE VIEW|CREATE (?:OR REPLACE )?TRIGGER \w+ .* ON) (\w+) `)
	takesNone    = regexp.MustCompile(`^(?:CREATE (?:OR REPLACE )?FUNCTION|COMMENT ON) `)
	raises       = regexp.MustCompile(`^UPDATE schema_compatibility SET oldest_program = (\d+)$`)
	removes      = regexp.MustCompile(`^DROP (?:TABLE|VIEW|FUNCTION|TRIGGER \w+ ON) (\w+)`)
	dropsPart    = regexp.MustCompile(`^DROP (?:COLUMN|CONSTRAINT) |^ALTER COLUMN \w+ DROP (?:NOT NULL|DEFAULT)$`)
	changesPart  = regexp.MustCompile(`^ADD CONSTRAINT \w+ (?:CHECK|FOREIGN KEY) .* NOT VALID$|^ADD CONSTRAINT \w+ UNIQUE USING INDEX \w+$|^ALTER COLUMN \w+ SET DEFAULT [\w']+$|^SET \(`)
	dropsCheck   = regexp.MustCompile(`^DROP CONSTRAINT (\w+)$`)
	addColumn    = regexp.MustCompile(`^ADD COLUMN (?:IF NOT EXISTS )?\w+ [\w ]+?(?:\[\])?(?: DEFAULT (?:'[^']*'|[0-9]+|true|false)(?:::\w+)? NOT NULL| NOT NULL DEFAULT (?:'[^']*'|[0-9]+|true|false)(?:::\w+)?| DEFAULT (?:'[^']*'|[0-9]+|true|false)(?:::\w+)?)?$`)
	unsafeColumn = regexp.MustCompile(`(?i)\b(REFERENCES|UNIQUE|PRIMARY|CHECK|GENERATED|serial|bigserial)\b`)
	concurrently = regexp.MustCompile(`^(?:DROP INDEX CONCURRENTLY IF EXISTS|CREATE (?:UNIQUE )?INDEX CONCURRENTLY) (\w+)|^ALTER TABLE \w+ VALIDATE CONSTRAINT \w+$`)
)

// parts splits a text at a separator outside of parentheses and quotes.
func parts(text string, separator rune) (found []string) {
	depth, quoted, begin := 0, false, 0
	for i, r := range text {
		switch {
		case r == '\'':
			quoted = !quoted
		case quoted:
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == separator && depth == 0:
			found, begin = append(found, strings.TrimSpace(text[begin:i])), i+1
		}
	}
	if rest := strings.TrimSpace(text[begin:]); rest != "" {
		found = append(found, rest)
	}
	return found
}

// statementsOf returns the statements of a migration, each in one line without comments.
func statementsOf(text string) (found []string) {
	whole := false // between StatementBegin and StatementEnd, semicolons are of the statement
	var open []string
	add := func(split bool) {
		text := strings.Join(strings.Fields(strings.Join(open, " ")), " ")
		open = nil
		if split {
			found = append(found, parts(text, ';')...)
		} else if text != "" {
			found = append(found, strings.TrimSuffix(text, ";"))
		}
	}
	for line := range strings.Lines(text) {
		switch {
		case strings.Contains(line, "+goose StatementBegin"):
			add(true)
			whole = true
		case strings.Contains(line, "+goose StatementEnd"):
			add(false)
			whole = false
		case !whole:
			line, _, _ = strings.Cut(line, "--")
			open = append(open, line)
		default:
			open = append(open, line)
		}
	}
	add(true)
	return found
}

// problems returns what a migration does that would fail programs of before, or keep them waiting.
func problems(version int64, text string) (found []string) {
	complain := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	statements := statementsOf(text)
	if strings.Contains(text, "+goose NO TRANSACTION") {
		dropped := ""
		for _, statement := range statements {
			match := concurrently.FindStringSubmatch(statement)
			switch {
			case match == nil:
				complain("without a transaction, only indexes are made and dropped CONCURRENTLY, and constraints validated: %s", statement)
			case strings.HasPrefix(statement, "DROP"):
				dropped = match[1]
			case strings.HasPrefix(statement, "CREATE") && dropped != match[1]:
				complain("an attempt that was ended leaves an index that is not valid: DROP INDEX CONCURRENTLY IF EXISTS %s is first", match[1])
			}
		}
		return found
	}
	made, locked := map[string]bool{}, map[string]bool{}
	contract, raised := strings.Contains(text, "\n-- contract: ") || strings.HasPrefix(text, "-- contract: "), int64(0)
	remove := func(statement string) {
		if !contract {
			complain("what an earlier version uses is removed a release later, with a note `-- contract: why nobody uses it`: %s", statement)
		}
	}
	for _, statement := range statements {
		switch {
		case createTable.MatchString(statement):
			made[createTable.FindStringSubmatch(statement)[1]] = true
			for _, other := range references.FindAllStringSubmatch(statement, -1) {
				locked[other[1]] = true
			}
		case createIndex.MatchString(statement):
			if table := createIndex.FindStringSubmatch(statement)[1]; !made[table] {
				complain("an index of a table with rows is made CONCURRENTLY: %s", statement)
			}
		case insertInto.MatchString(statement) && made[insertInto.FindStringSubmatch(statement)[1]]:
		case raises.MatchString(statement):
			raised, _ = strconv.ParseInt(raises.FindStringSubmatch(statement)[1], 10, 64)
		case removes.MatchString(statement):
			locked[removes.FindStringSubmatch(statement)[1]] = true
			remove(statement)
		case takesALock.MatchString(statement):
			locked[takesALock.FindStringSubmatch(statement)[1]] = true
		case takesNone.MatchString(statement):
		case alterTable.MatchString(statement):
			match := alterTable.FindStringSubmatch(statement)
			locked[match[1]] = true
			for _, part := range parts(match[2], ',') {
				switch {
				case dropsCheck.MatchString(part) && strings.Contains(match[2], "ADD CONSTRAINT "+dropsCheck.FindStringSubmatch(part)[1]+" CHECK "):
					// It is replaced at once; the rule of the next part is that of the one that takes its place.
				case dropsPart.MatchString(part):
					remove(part)
				case changesPart.MatchString(part):
				case addColumn.MatchString(part) && !unsafeColumn.MatchString(part) && (strings.Contains(part, " DEFAULT ") || !strings.Contains(part, "NOT NULL")):
				default:
					complain("it reads or rewrites a table that it locks, or the programs of before do not know it: %s", part)
				}
			}
		default:
			complain("it is not known to be safe: %s", statement)
		}
	}
	for table := range made {
		delete(locked, table)
	}
	if len(locked) > 1 {
		complain("it locks several tables, each while it waits for the next one: %v", locked)
	}
	if contract != (raised != 0) || contract && (!releases[raised] || raised >= version) {
		complain("a contract, and nothing else, sets oldest_program to the newest migration of a release before it, not to %d", raised)
	}
	return found
}

// Programs of the version before serve while a migration runs, and afterwards.
func TestMigrations_ExpandFirstAndLockNobodyOut(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("migrations/*.sql")
	must(t, err)
	checked := 0
	for _, path := range files {
		version, err := goose.NumericComponent(path)
		must(t, err)
		if version < firstChecked {
			continue
		}
		checked++
		text, err := os.ReadFile(path)
		must(t, err)
		for _, problem := range problems(version, string(text)) {
			t.Errorf("%s: %s", path, problem)
		}
	}
	if checked == 0 {
		t.Error("no migration was checked")
	}
}

func TestMigrationRules_FindWhatLocksOrBreaks(t *testing.T) {
	releases[30] = true
	t.Cleanup(func() { delete(releases, 30) })
	const contract = "-- contract: nobody uses it since release 30.\nUPDATE schema_compatibility SET oldest_program = 30;\n"
	for text, want := range map[string]string{
		"CREATE TABLE a (id uuid REFERENCES account (id)); CREATE INDEX i ON a (id); INSERT INTO a (id) VALUES (NULL);":                      "",
		"ALTER TABLE stored_item ADD COLUMN a text, ADD COLUMN b integer NOT NULL DEFAULT 7, ADD COLUMN c text[] ;":                          "",
		"ALTER TABLE stored_item ADD CONSTRAINT c CHECK (bytes >= 0) NOT VALID;":                                                             "",
		"-- +goose NO TRANSACTION\nDROP INDEX CONCURRENTLY IF EXISTS i;\nCREATE INDEX CONCURRENTLY i ON stored_item (a);":                    "",
		"-- +goose NO TRANSACTION\nALTER TABLE stored_item VALIDATE CONSTRAINT c;":                                                           "",
		"-- +goose StatementBegin\nCREATE OR REPLACE FUNCTION f() RETURNS int LANGUAGE sql AS $$ SELECT 1; $$;\n-- +goose StatementEnd":      "",
		contract + "ALTER TABLE app DROP COLUMN a;":                                                                                          "",
		"ALTER TABLE app DROP CONSTRAINT c, ADD CONSTRAINT c CHECK (a > 0) NOT VALID;":                                                       "",
		"ALTER TABLE app DROP CONSTRAINT c, ADD CONSTRAINT c CHECK (a > 0);":                                                                 "reads or rewrites",
		"ALTER TABLE app DROP CONSTRAINT c, ADD CONSTRAINT d CHECK (a > 0) NOT VALID;":                                                       "a release later",
		"ALTER TABLE stored_item ALTER COLUMN a TYPE bigint;":                                                                                "reads or rewrites",
		"ALTER TABLE stored_item ALTER COLUMN a SET NOT NULL;":                                                                               "reads or rewrites",
		"ALTER TABLE stored_item ADD COLUMN a text NOT NULL;":                                                                                "reads or rewrites",
		"ALTER TABLE stored_item ADD COLUMN a uuid DEFAULT gen_random_uuid();":                                                               "reads or rewrites",
		"ALTER TABLE stored_item ADD COLUMN a uuid REFERENCES account (id);":                                                                 "reads or rewrites",
		"ALTER TABLE stored_item ADD CONSTRAINT c CHECK (bytes >= 0);":                                                                       "reads or rewrites",
		"ALTER TABLE stored_item RENAME COLUMN a TO b;":                                                                                      "reads or rewrites",
		"CREATE INDEX i ON stored_item (a);":                                                                                                 "CONCURRENTLY",
		"CREATE INDEX CONCURRENTLY i ON stored_item (a);":                                                                                    "not known to be safe",
		"-- +goose NO TRANSACTION\nCREATE INDEX CONCURRENTLY i ON stored_item (a);":                                                          "not valid",
		"-- +goose NO TRANSACTION\nALTER TABLE stored_item ADD COLUMN a text;":                                                               "without a transaction",
		"ALTER TABLE app DROP COLUMN a;":                                                                                                     "a release later",
		"DROP TABLE app;":                                                                                                                    "a release later",
		"-- contract: nobody uses it.\nDROP TABLE app;":                                                                                      "sets oldest_program",
		"-- contract: nobody uses it.\nUPDATE schema_compatibility SET oldest_program = 31;":                                                 "not to 31",
		"UPDATE schema_compatibility SET oldest_program = 30;":                                                                               "sets oldest_program",
		"UPDATE stored_item SET bytes = 0;":                                                                                                  "not known to be safe",
		"INSERT INTO app (id) SELECT id FROM account;":                                                                                       "not known to be safe",
		"LOCK TABLE stored_item;":                                                                                                            "not known to be safe",
		"SET LOCAL lock_timeout = '10s';":                                                                                                    "not known to be safe",
		"ALTER TABLE app ADD COLUMN a text; ALTER TABLE account ADD COLUMN a text;":                                                          "several tables",
		"CREATE TABLE a (x uuid REFERENCES app (id)); ALTER TABLE account ADD COLUMN a text;":                                                "several tables",
		"CREATE TRIGGER x AFTER INSERT ON app FOR EACH ROW EXECUTE FUNCTION f(); DROP VIEW item;":                                            "several tables",
		"CREATE OR REPLACE TRIGGER x BEFORE DELETE ON app FOR EACH STATEMENT WHEN (true) EXECUTE FUNCTION f();":                              "",
		"CREATE OR REPLACE TRIGGER x BEFORE DELETE ON app FOR EACH STATEMENT EXECUTE FUNCTION f(); CREATE OR REPLACE VIEW item AS SELECT 1;": "several tables",
	} {
		got := strings.Join(problems(40, text), "; ")
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
