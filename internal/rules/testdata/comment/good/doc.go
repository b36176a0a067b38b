// Package good says what it is for.
package good
