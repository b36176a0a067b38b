package run

import (
	"strings"
	"testing"
)

func shown(t *testing.T, pieces ...string) string {
	t.Helper()
	var out strings.Builder
	u := unasked{w: &out}
	for _, s := range pieces {
		if err := u.WriteString(s); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// TestNothingAsks holds a playback to what no terminal answers, whole and cut into
// characters.
func TestNothingAsks(t *testing.T) {
	for name, s := range map[string]string{
		"identity":          "\x1bZ\x05\x1b[c\x1b[0c\x1b[>c\x1b[=0c\u009bc",
		"status":            "\x1b[5n\x1b[6n\x1b[?6n\u009b6n",
		"within control":    "\x1b[\x056n",
		"escape twice":      "\x1b\x1b[6n",
		"cut by escape":     "\x1b[1\x1b[6n",
		"cut by a string":   "\x1b]0;a\x1b[6n",
		"string cut by CAN": "\x1b]0;\x18\x05",
		"charset and query": "\x1b(\x1b[6n",
		"window":            "\x1b[18t\x1b[21t\x1b[8;50;132t",
		"modes":             "\x1b[?25$p\x1b[4$p\x1b[x\x1b[>0q\x1b[?u\x1b[?1;1;0S\x1b[1;1;1;1;2;2*y\x1b[2;2$u\x1b[&u\x1b[1$w\x1b['|\x1b[\"v\x1b[#R",
		"colours":           "\x1b]10;?\a\x1b]4;1;?\x1b\\\u009d11;?\u009c",
		"clipboard":         "\x1b]52;c;?\x1b\\",
		"strings":           "\x1bP$qm\x1b\\\x1bP+q544e\x1b\\\x1b_Gi=1,a=q;AAAA\x1b\\",
		"mouse and focus":   "\x1b[?1000h\x1b[?25;1006h\x1b[?1004h\x1b[?2004h\x1b[?2048h",
		"endless":           "\x1b]0;" + strings.Repeat("x", maxSequence) + ";?\a",
		"unfinished":        "\x1b[6",
	} {
		if got := shown(t, s); got != "" {
			t.Errorf("%s: it printed %q", name, got)
		}
		if name == "endless" {
			continue
		}
		if got := shown(t, strings.Split(s, "")...); got != "" {
			t.Errorf("%s in pieces: it printed %q", name, got)
		}
	}
}

func TestTheRestIsShown(t *testing.T) {
	for _, s := range []string{
		"plain ünïcode\r\n\t\b\a", "\x1b[2J\x1b[1;31mred\x1b[0m\x1b[K", "\x1b(B\x1b)0\x1b=\x1b>\x1bM\x1b7\x1b8\x1bc", "\x1b]0;title\a\x1b]8;;http://a?b=c\x1b\\link\x1b]8;;\x1b\\\x1b]8;;?q\a",
		"\x1b[?25h\x1b[?1049h\x1b[?1000l\x1b[2 q\x1b[!p\x1b[1\"q\x1b[1;2;3;4$x", "\x1bPq#0;2;0;0;0~-\x1b\\", "\x1b]52;c;aGk=\a",
	} {
		if got := shown(t, s); got != s {
			t.Errorf("%q became %q", s, got)
		}
		if got := shown(t, strings.Split(s, "")...); got != s {
			t.Errorf("%q in pieces became %q", s, got)
		}
	}
}

// FuzzNothingAsks cuts what a program printed in two: the pieces print the same, and
// printing the result again changes nothing more.
func FuzzNothingAsks(f *testing.F) {
	f.Add("a\x1b[6nb\x1b]0;t\a", 3)
	f.Add("\x1bP$qm\x1b\\\u009b6n\x18\x05", 2)
	f.Fuzz(func(t *testing.T, s string, at int) {
		s = strings.ToValidUTF8(s, "?")
		runes := []rune(s)
		at = min(max(at, 0), len(runes))
		whole := shown(t, s)
		if pieces := shown(t, string(runes[:at]), string(runes[at:])); pieces != whole {
			t.Errorf("%q cut at %d printed %q, whole %q", s, at, pieces, whole)
		}
		if again := shown(t, whole); again != whole {
			t.Errorf("%q printed %q, and that %q", s, whole, again)
		}
	})
}
