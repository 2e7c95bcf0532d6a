// Package ui tests the page of captctl ui in a real browser: against a real API server
// whose objects are written by the test, and against the environment of make quickstart.
// make test-ui runs it.
package ui
