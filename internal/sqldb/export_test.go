package sqldb

// PutPageSum makes a page good again that a test has changed.
var PutPageSum = putPageSum

// ParsedOnce is how SQLite is given a statement.
var ParsedOnce = parsedOnce
