package postgres

// ListStatement is listStatement, for tests that explain it.
var ListStatement = listStatement
