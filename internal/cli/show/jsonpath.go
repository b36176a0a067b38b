package show

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/ohler55/ojg/jp"

	"github.com/hostler-io/hostler/internal/cli/term"
)

// maxPath bounds an expression, in bytes: it is typed by a person.
const maxPath = 4 << 10

// jsonPath selects parts of a thing by an expression of RFC 9535, as $.exit.code. It may
// begin with its first member, and stand in braces as other tools want it: {.exit.code}.
type jsonPath struct{ expr jp.Expr }

// parseJSONPath reads an expression.
func parseJSONPath(text string) (*jsonPath, error) {
	if len(text) > maxPath {
		return nil, fmt.Errorf("the path has %d bytes, at most %d are allowed", len(text), maxPath)
	}
	path := strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(path, "{"); ok && strings.HasSuffix(inner, "}") {
		path = strings.TrimSuffix(inner, "}")
	}
	if strings.HasPrefix(path, ".") || strings.HasPrefix(path, "[") {
		path = "$" + path
	}
	if !strings.HasPrefix(path, "$") {
		return nil, fmt.Errorf("%q is no JSON path: want one like $.state or {.exit.code}", text)
	}
	expr, err := jp.ParseString(path)
	if err != nil {
		return nil, fmt.Errorf("%q is no JSON path: %w", text, err) // its error tells the column
	}
	return &jsonPath{expr}, nil
}

// print writes what the path selects of a thing, one value to a line: texts as they are,
// everything else as JSON. A path that selects nothing writes nothing. It returns how many
// values there were.
func (p *jsonPath) print(w io.Writer, thing any) (int, error) {
	b, err := Encode(thing, false)
	if err != nil {
		return 0, err
	}
	var tree any
	if err := json.NewDecoder(bytes.NewReader(b)).Decode(&tree); err != nil {
		return 0, err
	}
	values := p.expr.Get(tree)
	for _, v := range values {
		line, ok := v.(string)
		if !ok {
			b, err := Encode(v, false)
			if err != nil {
				return 0, err
			}
			line = strings.TrimSuffix(string(b), "\n")
		}
		if _, err := fmt.Fprintln(w, term.Printable(line)); err != nil {
			return 0, err
		}
	}
	return len(values), nil
}
