package show

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hostler-io/hostler/internal/cli/term"
)

// watched is a thing whose time goes on by itself.
type watched struct {
	Name  string `json:"name"`
	State string `json:"state"`
	Other int    `json:"other"`
	Now   int    `json:"now"`
	Left  int    `json:"lease_left_ms,omitempty"`
}

// TestWatchPrintsChanges: each state of a thing is printed once, and what is gone is told.
func TestWatchPrintsChanges(t *testing.T) {
	rounds := [][]watched{
		{{"a", "up", 1, 1, 9}, {"b", "up", 1, 1, 9}},
		{{"a", "up", 1, 2, 8}, {"b", "up", 1, 2, 8}},   // time alone
		{{"a", "up", 2, 3, 7}, {"b", "up", 1, 3, 7}},   // no table shows this
		{{"a", "up", 2, 4, 6}, {"b", "down", 1, 4, 6}}, // everybody sees this
		{{"a", "up", 2, 5, 5}},
	}
	for _, c := range []struct {
		form, filter string
		limit        int
		one          bool
		out, talk    string
	}{
		{form: "table", out: "NAME   STATE\na      up\nb      up\nb      down\n", talk: "b is no longer in the list\n"},
		{form: "table", limit: 1, out: "NAME   STATE\na      up\n"},
		{form: "table", filter: "state=up", out: "NAME   STATE\na      up\nb      up\n", talk: "b is no longer in the list\n"},
		{form: "csv", out: "name,state\na,up\nb,up\nb,down\n", talk: "b is no longer in the list\n"},
		{form: "jsonpath=$.state", out: "up\nup\ndown\n", talk: "b is no longer in the list\n"},
		{form: "json", out: `{"name":"a","state":"up","other":1,"now":1,"lease_left_ms":9}
{"name":"b","state":"up","other":1,"now":1,"lease_left_ms":9}
{"name":"a","state":"up","other":2,"now":3,"lease_left_ms":7}
{"name":"b","state":"down","other":1,"now":4,"lease_left_ms":6}
`, talk: "b is no longer in the list\n"},
		{form: "table", one: true, out: "name: a\nstate: up\nname: b\nstate: up\n\nname: b\nstate: down\n"},
	} {
		var out, talk bytes.Buffer
		ui := &term.UI{Out: &out, Err: &talk, Every: time.Nanosecond, Now: time.Now, Getenv: func(string) string { return "" }}
		v := &View{Watch: true, Limit: c.limit, One: c.one}
		if err := v.Format.Set(c.form); err != nil {
			t.Fatal(err)
		}
		if c.filter != "" {
			if err := v.filters.Set(c.filter); err != nil {
				t.Fatal(err)
			}
		}
		n, over := 0, errors.New("over")
		err := Items(t.Context(), ui, v, NounOf[watched]("name", "name state", nil), func(context.Context) ([]watched, error) {
			if n++; n > len(rounds) {
				return nil, over
			}
			return rounds[n-1], nil
		})
		if !errors.Is(err, over) || out.String() != c.out || talk.String() != c.talk {
			t.Errorf("%+v: %v\n%s\n%s", c, err, out.String(), talk.String())
		}
	}
}
