// Package engine tests the Terraform engine as users run it: the real manager,
// the real OpenTofu and the real API server.
package engine
