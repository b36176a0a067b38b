// Package show prints things as the user wants to see them. A [Noun] names the
// columns of a thing; the options -o, --no-headers, --watch and --limit, which every
// list and show has, choose the form.
package show
