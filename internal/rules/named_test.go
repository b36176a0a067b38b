package rules

import (
	"go/ast"
	"path"
	"regexp"
	"strings"
)

// fileName finds the names of files of the tree in a comment. What a program writes
// has other endings, and a pattern is no name.
var fileName = regexp.MustCompile(`(?:^|[^\w*<>./-])((?:[\w.-]+/)*[\w.-]*\w\.(?:go|md|sh|sql))\b`)

// checkNamed holds comments to the files that they name: beside the file of the
// comment, or from the root of the module.
func checkNamed(c *check) {
	for _, f := range c.pkg.files {
		for _, group := range f.syntax.Comments {
			for _, comment := range group.List {
				if missing := c.missing(comment, path.Dir(f.name)); missing != "" {
					c.report(comment, "names %s, which does not exist", missing)
				}
			}
		}
	}
}

func (c *check) missing(comment *ast.Comment, dir string) string {
	for _, m := range fileName.FindAllStringSubmatch(comment.Text, -1) {
		if !strings.HasPrefix(comment.Text, "//go:") && !c.tree.exists(path.Join(dir, m[1])) && !c.tree.exists(path.Clean(m[1])) {
			return m[1]
		}
	}
	return ""
}
