package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// module is the path that all import paths of ours begin with.
const module = "github.com/hostler-io/hostler"

// tags are the build tags of the tree. A file behind any other constraint is
// still read, but alone.
const tags = "integration,heavy,hostlertest"

// tree is a set of packages, parsed and as far as possible type-checked. Code
// that does not compile is no obstacle: what it refers to is then unknown, and
// the compiler says so better than a rule could.
type tree struct {
	fset     *token.FileSet
	packages []*pkg
	info     *types.Info

	// What the tables of the rules say about it, and which lines were needed.
	pending []exemption
	used    map[exemption]bool
	records []record
	large   map[record]bool

	pauses  []string
	pausing map[string]bool

	exists          func(name string) bool // whether the tree has a file
	virtual, makers map[string]bool        // of [virtualFuncs], once asked for
}

// pkg is one folder of Go files.
type pkg struct {
	path  string // below the module, "agent/queue"
	name  string // of its package clause
	files []*file
}

// file is one Go file.
type file struct {
	name   string // below the module, "agent/queue/queue.go"
	test   bool   // is named *_test.go
	lines  int
	syntax *ast.File
}

// program reports whether p is a command, the one place that is wired.
func (p *pkg) program() bool {
	return p.name == "main" && slices.Contains(strings.Split(p.path, "/"), "cmd")
}

// support reports whether p exists for tests: a conformance suite or a fake.
func (p *pkg) support() bool { return strings.HasSuffix(p.name, "test") }

// unit is the files of one package clause that are type-checked together.
type unit struct {
	path  string
	files []*ast.File
}

// loadTree reads the whole module once for all tests.
var loadTree = sync.OnceValues(func() (*tree, error) {
	list, err := goList("-tags", tags, "-json=Dir,ImportPath,GoFiles,CgoFiles,TestGoFiles,XTestGoFiles,IgnoredGoFiles", "./...")
	if err != nil {
		return nil, err
	}
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	t := newTree()
	t.pending, t.records = pending, records
	for _, p := range pauses {
		t.pauses = append(t.pauses, p.name)
	}
	t.exists = func(name string) bool {
		_, err := os.Stat(filepath.Join(root, name))
		return err == nil
	}
	var units []unit
	for _, l := range list {
		p := &pkg{path: strings.TrimPrefix(strings.TrimPrefix(l.ImportPath, module), "/")}
		var groups [][]string
		groups = append(groups, slices.Concat(l.GoFiles, l.CgoFiles, l.TestGoFiles), l.XTestGoFiles)
		for _, name := range l.IgnoredGoFiles {
			groups = append(groups, []string{name})
		}
		for _, group := range groups {
			u := unit{path: l.ImportPath}
			for _, name := range group {
				src, err := os.ReadFile(filepath.Join(l.Dir, name))
				if errors.Is(err, fs.ErrNotExist) {
					continue // removed since it was listed
				}
				if err != nil {
					return nil, err
				}
				f, err := t.parse(p, path.Join(p.path, name), src)
				if err != nil {
					return nil, err
				}
				u.files = append(u.files, f)
			}
			units = append(units, u)
		}
		if len(p.files) > 0 {
			t.packages = append(t.packages, p)
		}
	}
	return t, t.check(units)
})

// loadFS reads a tree whose folders are the packages.
func loadFS(fsys fs.FS) (*tree, error) {
	t := newTree()
	t.exists = func(name string) bool {
		_, err := fs.Stat(fsys, name)
		return err == nil
	}
	byDir := make(map[string]*pkg)
	var units []unit
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") {
			return err
		}
		dir := path.Dir(name)
		if byDir[dir] == nil {
			byDir[dir] = &pkg{path: dir}
			t.packages = append(t.packages, byDir[dir])
			units = append(units, unit{path: path.Join(module, dir)})
		}
		src, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		f, err := t.parse(byDir[dir], name, src)
		if err != nil {
			return err
		}
		i := slices.Index(t.packages, byDir[dir])
		units[i].files = append(units[i].files, f)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return t, t.check(units)
}

func newTree() *tree {
	return &tree{
		fset:    token.NewFileSet(),
		used:    make(map[exemption]bool),
		large:   make(map[record]bool),
		pausing: make(map[string]bool),
		info: &types.Info{
			Defs:       make(map[*ast.Ident]types.Object),
			Uses:       make(map[*ast.Ident]types.Object),
			Selections: make(map[*ast.SelectorExpr]*types.Selection),
			Types:      make(map[ast.Expr]types.TypeAndValue),
		},
	}
}

// parse adds one file to p.
func (t *tree) parse(p *pkg, name string, src []byte) (*ast.File, error) {
	f, err := parser.ParseFile(t.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parsing: %w", err)
	}
	test := strings.HasSuffix(name, "_test.go")
	p.files = append(p.files, &file{name: name, test: test, lines: bytes.Count(src, []byte("\n")), syntax: f})
	if p.name == "" || !test {
		p.name = f.Name.Name
	}
	return f, nil
}

// check finds out what the names in the units stand for, with the compiler's
// export data of everything they import.
func (t *tree) check(units []unit) error {
	imported := make(map[string]bool)
	for _, p := range t.packages {
		for _, f := range p.files {
			for _, spec := range f.syntax.Imports {
				imported[importPath(spec)] = true
			}
		}
	}
	delete(imported, "C")
	delete(imported, "unsafe")
	export, err := exportData(slices.Sorted(maps.Keys(imported)))
	if err != nil {
		return err
	}
	config := types.Config{
		FakeImportC: true,
		Error:       func(error) {},
		Importer: importer.ForCompiler(t.fset, "gc", func(path string) (io.ReadCloser, error) {
			if export[path] == "" {
				return nil, fmt.Errorf("no export data of %q", path)
			}
			return os.Open(export[path])
		}),
	}
	for _, u := range units {
		// The error repeats what Error was told.
		_, _ = config.Check(u.path, t.fset, u.files, t.info)
	}
	return nil
}

// listed is what `go list` tells about a package.
type listed struct {
	Dir, ImportPath, Export                                            string
	GoFiles, CgoFiles, TestGoFiles, XTestGoFiles, IgnoredGoFiles, Deps []string
}

// goList runs `go list` at the root of the module. Packages with errors are
// listed as far as they go.
func goList(args ...string) ([]listed, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("go", append([]string{"list", "-e"}, args...)...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w: %s", cmd.Args[:2], err, stderr.Bytes())
	}
	var list []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			return list, nil
		} else if err != nil {
			return nil, fmt.Errorf("decoding the list: %w", err)
		}
		list = append(list, l)
	}
}

// exportData maps import paths to the files of the compiler's export data.
func exportData(paths []string) (map[string]string, error) {
	files := make(map[string]string)
	if len(paths) == 0 {
		return files, nil
	}
	list, err := goList(append([]string{"-tags", tags, "-export", "-json=ImportPath,Export", "--"}, paths...)...)
	for _, l := range list {
		files[l.ImportPath] = l.Export
	}
	return files, err
}

// moduleRoot is the folder of go.mod.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

func importPath(spec *ast.ImportSpec) string {
	p, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return spec.Path.Value // the parser has refused such a file
	}
	return p
}

// mustLoad returns the module's tree or ends the test.
func mustLoad(t *testing.T) *tree {
	t.Helper()
	tr, err := loadTree()
	if err != nil {
		t.Fatal(err)
	}
	return tr
}
