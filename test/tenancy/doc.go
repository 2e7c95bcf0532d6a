// Package tenancy attacks CAPT as the users that docs/security.md describes: with the
// shipped roles, policies and webhooks, and the API server's own authorizer and admission
// plugins.
package tenancy
