// Package silent is described where no reader looks.
package silent
