package actions

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hostler-io/hostler/internal/cli/conn"
	"github.com/hostler-io/hostler/internal/cli/show"
	"github.com/hostler-io/hostler/internal/cli/term"
	"github.com/hostler-io/hostler/protocol"
)

// kindInfo is a kind of action as it is declared.
type kindInfo struct {
	Kind       string         `json:"kind"`
	Target     string         `json:"target"`
	Lane       string         `json:"lane"`
	Attempts   int            `json:"attempts"`
	RunTimeout string         `json:"run_timeout"`
	StartTTL   string         `json:"start_ttl"`
	Needs      string         `json:"needs,omitempty"`
	Promises   []string       `json:"promises,omitempty"`
	Doc        string         `json:"doc"`
	Arguments  []argument     `json:"arguments"`
	Example    map[string]any `json:"example"`
	States     []word         `json:"states"`
	Reasons    []word         `json:"reasons"`
}

// argument is one of what a kind takes.
type argument struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Required bool   `json:"required,omitempty"`
	Doc      string `json:"doc"`
}

// word is a state of an action, or a reason why it ended, and what it means.
type word struct {
	Word string `json:"word"`
	Doc  string `json:"doc"`
}

func meanings(all []word) show.Sentences {
	return conn.Each(all, func(w word) string { return w.Word + ": " + w.Doc })
}

func kindNoun() show.Noun[kindInfo] {
	return show.NounOf("kind", "kind target lane attempts run_timeout doc~ start_ttl+ needs+ promises+ arguments++ example++ states++ reasons++", show.Cells[kindInfo]{
		"arguments": func(k kindInfo) any {
			return show.Sentences(conn.Each(k.Arguments, func(a argument) string {
				form := a.Type
				if a.Required {
					form += ", required"
				}
				return a.Name + " (" + form + "): " + a.Doc
			}))
		},
		"states":  func(k kindInfo) any { return meanings(k.States) },
		"reasons": func(k kindInfo) any { return meanings(k.Reasons) },
	})
}

// Kinds returns hostler kind and hostler explain.
func Kinds(ui *term.UI) []*cobra.Command {
	ls := &cobra.Command{
		Use: "ls", Short: "List the kinds of actions", Args: term.NoArgs,
		Long:    "Lists what can be asked of hosts, as this program knows it: each action is of one kind.",
		Example: "  hostler kind ls\n  hostler kind ls -o wide",
	}
	v := show.ListFlags(ls)
	ls.RunE = func(cmd *cobra.Command, _ []string) error {
		return show.Items(cmd.Context(), ui, v, kindNoun(), func(context.Context) ([]kindInfo, error) { return conn.Each(protocol.Kinds(), describe), nil })
	}
	explain := &cobra.Command{
		Use: "explain KIND", Short: "Explain a kind of action: its arguments, states and reasons", Args: term.Exactly(1),
		Long: `Shows what a kind of action promises, which arguments it takes in POST /v1/actions,
the states that it passes through, and the reasons with which it may end.`,
		Example: "  hostler explain host.run\n  hostler explain container.create -o json | jq .arguments",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return conn.Each(protocol.Kinds(), func(k protocol.Kind) string { return string(k) }), cobra.ShellCompDirectiveNoFileComp
		},
	}
	one := show.ShowFlags(explain)
	explain.RunE = func(cmd *cobra.Command, args []string) error {
		if _, ok := protocol.KindOf(protocol.Kind(args[0])); !ok {
			return &term.Failure{Code: term.ExitNotFound, What: fmt.Sprintf("there is no kind %q", args[0]), Next: "hostler kind ls"}
		}
		return show.Item(cmd.Context(), ui, one, kindNoun(), func(context.Context) (kindInfo, error) { return describe(protocol.Kind(args[0])), nil })
	}
	return []*cobra.Command{term.Group("kind", "Kinds of actions: what can be asked of hosts", ls), explain}
}

// describe reads the declaration of a kind.
func describe(kind protocol.Kind) kindInfo {
	i, _ := protocol.KindOf(kind)
	k := kindInfo{
		Kind: string(i.Kind), Doc: i.Doc, Target: string(i.Target), Lane: string(i.Lane), Attempts: i.Attempts,
		RunTimeout: limit(i.RunTimeout), StartTTL: limit(i.StartTTL), Needs: string(i.Needs), Example: i.ExampleArgs(), Arguments: argumentsOf(i.ArgsSchema()),
	}
	for promise, is := range map[string]bool{"root equivalent": i.RootEquivalent, "cancellable": i.Cancellable, "goes past what waits": i.Preempts(), "for admins alone": i.Admin} {
		if is {
			k.Promises = append(k.Promises, promise)
		}
	}
	slices.Sort(k.Promises)
	for _, s := range protocol.States() {
		k.States = append(k.States, word{string(s), s.Meaning()})
	}
	all := protocol.Reasons()
	for _, r := range slices.Sorted(maps.Keys(all)) {
		k.Reasons = append(k.Reasons, word{string(r), all[r]})
	}
	return k
}

// limit writes a time limit; 0 is none.
func limit(d time.Duration) string {
	if d == 0 {
		return "none"
	}
	return term.Roughly(d)
}

// argumentsOf reads the JSON Schema of arguments.
func argumentsOf(schema map[string]any) []argument {
	required, _ := schema["required"].([]string)
	members, _ := schema["properties"].(map[string]any)
	all := make([]argument, 0, len(members))
	for _, name := range slices.Sorted(maps.Keys(members)) {
		m, _ := members[name].(map[string]any)
		doc, _ := m["description"].(string)
		all = append(all, argument{name, typeOf(m), slices.Contains(required, name), doc})
	}
	slices.SortStableFunc(all, func(a, b argument) int { // what must be given comes first
		return cmp.Compare(rank(a), rank(b))
	})
	return all
}

func rank(a argument) int {
	if a.Required {
		return 0
	}
	return 1
}

// typeOf writes the type of a member in a word or two.
func typeOf(m map[string]any) string {
	if words, ok := m["enum"].([]string); ok {
		return strings.Join(words, "|")
	}
	name := fmt.Sprint(cmp.Or(m["type"], any("object")))
	if items, ok := m["items"].(map[string]any); ok && name == "array" {
		return "list of " + typeOf(items)
	}
	return name
}
