// Package spread tells file systems which directories have children that belong
// together no more than strangers do.
//
// Left to itself, ext4 puts a directory and all that is below it into one group of
// inodes, and looks for a free one from the beginning of the group. It passes over
// each that was freed in the last minutes, one by one. Below a directory in which much
// comes and goes, every creation looks at thousands of them, which takes more than
// half a millisecond of processor time: several for each command that is run.
package spread
