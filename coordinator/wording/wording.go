// Package wording says in our words what the HTTP layer of the coordinator and the reader of
// JSON say about the form of a request.
package wording

import (
	"fmt"
	"regexp"
	"strings"
)

// phrases say in our words what the HTTP layer and the reader of JSON say about the form
// of a request.
var phrases = []struct {
	text *regexp.Regexp
	ours string
}{
	{regexp.MustCompile(`^validation failed$`), "the form of the request is wrong"},
	{regexp.MustCompile(`^request body is required$`), "the body is missing"},
	{regexp.MustCompile(`^unknown content type: .*`), "want Content-Type: application/json"},
	{regexp.MustCompile(`^(unexpected end of JSON input|unexpected EOF)$`), "the JSON ends too early"},
	{regexp.MustCompile(`^invalid character ('.+?') .*`), "$1 stands where JSON does not allow it"},
	{regexp.MustCompile(`^(json: .*|invalid value: .*|unparsable value)`), "a value has the wrong type, or is too large"},
	{regexp.MustCompile(`^unexpected property$`), "there is no such member"},
	{regexp.MustCompile(`^unknown query parameter$`), "there is no such parameter"},
	{regexp.MustCompile(`^expected required property (\S+) to be present$`), "$1 is missing"},
	{regexp.MustCompile(`^required \S+ parameter is missing$`), "it is missing"},
	{regexp.MustCompile(`^expected at most one value.*`), "want one value"},
	{regexp.MustCompile(`^(invalid date/time .*|expected string to be RFC 3339 date-time)`), "want a time, as in 2026-01-31T12:00:00Z"},
	{regexp.MustCompile(`^expected string to be base64 encoded$`), "want bytes in base64"},
	{regexp.MustCompile(`^expected string to match pattern \^\[<>\].*`), "want the Hostler-Next-Cursor of an answer"},
	{regexp.MustCompile(`^expected string to match pattern \^\[0-9\].*`), "want the number of an event"},
	{regexp.MustCompile(`^expected string$`), "want a text"},
	{regexp.MustCompile(`^(expected boolean|invalid boolean)$`), "want true or false"},
	{regexp.MustCompile(`^(expected integer|invalid integer)$`), "want a whole number"},
	{regexp.MustCompile(`^(expected number|invalid float|invalid floating value)$`), "want a number"},
	{regexp.MustCompile(`^expected array$`), "want a list"},
	{regexp.MustCompile(`^expected object$`), "want an object"},
	{regexp.MustCompile(`^expected value to be one of "(.*)"$`), "want one of $1"},
	{regexp.MustCompile(`^expected number >= (.*)$`), "want $1 or more"},
	{regexp.MustCompile(`^expected number <= (.*)$`), "want at most $1"},
	{regexp.MustCompile(`^expected length >= (.*)$`), "want at least $1 characters"},
	{regexp.MustCompile(`^expected length <= (.*)$`), "want at most $1 characters"},
	{regexp.MustCompile(`^expected array length >= (.*)$`), "want at least $1 entries"},
	{regexp.MustCompile(`^expected array length <= (.*)$`), "want at most $1 entries"},
	{regexp.MustCompile(`^expected array items to be unique$`), "an entry is listed twice"},
}

// Of is a message of the HTTP layer in our words; one that is ours already stays.
func Of(message string) string {
	for _, p := range phrases {
		if p.text.MatchString(message) {
			return brief(p.text.ReplaceAllString(message, p.ours))
		}
	}
	return message
}

// most is how much is told of a list of words that could have stood there, in bytes.
const most = 400

// brief cuts a long list of words behind one of them.
func brief(text string) string {
	if len(text) <= most {
		return text
	}
	cut := strings.LastIndex(text[:most], ", ")
	if cut < 0 {
		return text
	}
	return fmt.Sprintf("%s, or one of %d more; GET /v1/openapi.json lists them", text[:cut], strings.Count(text[cut+1:], ", ")+1)
}

// Where names a part of a request, as body.labels[0] or query.limit, in our words.
func Where(location string) string {
	part, name, ok := strings.Cut(location, ".")
	switch {
	case !ok:
		return "the " + part
	case part == "body":
		return "member " + name
	case part == "query":
		return "parameter " + name
	}
	return part + " " + name
}
