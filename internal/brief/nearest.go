package brief

import "strings"

// Nearest returns the known word that a word was probably meant to be: the one that it
// begins, or the one that differs in the fewest letters, one or at most one of every three.
// It is empty if no word is near.
func Nearest(word string, known []string) string {
	best, least := "", max(1, len(word)/3)+1
	if len(word) < 2 || len(word) > Most {
		return ""
	}
	for _, k := range known {
		if strings.HasPrefix(k, word) {
			return k
		}
		if n := edits(word, k); n < least {
			best, least = k, n
		}
	}
	return best
}

// edits counts the letters that are missing, too many, wrong or swapped with the next.
func edits(a, b string) int {
	var before, last []int
	now := make([]int, len(b)+1)
	for j := range now {
		now[j] = j
	}
	for i := range len(a) {
		before, last, now = last, now, make([]int, len(b)+1)
		now[0] = i + 1
		for j := range len(b) {
			wrong := 1
			if a[i] == b[j] {
				wrong = 0
			}
			now[j+1] = min(last[j+1]+1, now[j]+1, last[j]+wrong)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				now[j+1] = min(now[j+1], before[j-1]+1)
			}
		}
	}
	return now[len(b)]
}
