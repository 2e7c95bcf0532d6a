// Package host uses the files, locks and processes of the machine on which the
// program runs.
package host
