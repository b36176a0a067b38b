// Good does its work and ends.
package main
