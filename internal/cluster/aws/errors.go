package aws

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"slices"
	"strings"

	sdkaws "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/appthrust/capt/internal/message"
)

// Kind classifies errors by what can be done about them.
type Kind string

// The kinds of errors.
const (
	// KindNoCredentials means that there are no credentials.
	KindNoCredentials Kind = "NoCredentials"
	// KindBadCredentials means that AWS rejects the credentials: they are unknown,
	// wrong or expired.
	KindBadCredentials Kind = "BadCredentials"
	// KindRoleDenied means that the identity is not allowed to assume the role.
	KindRoleDenied Kind = "RoleDenied"
	// KindDenied means that a permission is missing.
	KindDenied Kind = "Denied"
	// KindNotFound means that the requested object does not exist.
	KindNotFound Kind = "NotFound"
	// KindElsewhere means that the credentials are of another account than that of the
	// object, or that the region is another one.
	KindElsewhere Kind = "Elsewhere"
	// KindInvalid means that the settings or arguments are invalid.
	KindInvalid Kind = "Invalid"
	// KindNetwork means that AWS did not respond.
	KindNetwork Kind = "Network"
	// KindThrottled means that AWS throttled the call.
	KindThrottled Kind = "Throttled"
	// KindOther is any other error, such as an internal error of AWS.
	KindOther Kind = "Other"
)

// Error is the error type of every function of this package. Its text is meant for
// users: it contains no request id and no secret. The wrapped error is for
// errors.Is and errors.As only and must not be shown.
type Error struct {
	Kind Kind
	// Op is the failed operation, as an -ing phrase.
	Op string
	// Text describes the problem and its solution.
	Text string

	err error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Op == "" {
		return e.Text
	}
	return e.Op + ": " + e.Text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.err }

// KindOf returns the kind of an error: none for nil, KindOther for errors that
// are not of this package.
func KindOf(err error) Kind {
	var e *Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Kind
	}
	return KindOther
}

func invalid(format string, args ...any) error {
	return &Error{Kind: KindInvalid, Text: fmt.Sprintf(format, args...)}
}

// Error codes of AWS.
var (
	deniedCodes  = []string{"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"}
	expiredCodes = []string{"ExpiredToken", "ExpiredTokenException", "RequestExpired"}
	badCodes     = []string{
		"InvalidClientTokenId", "UnrecognizedClientException", "AuthFailure", "IncompleteSignature",
		"MissingAuthenticationToken", "MissingAuthenticationTokenException", "InvalidAccessKeyId",
	}
	badTokenCodes = []string{"InvalidIdentityToken", "IDPRejectedClaim"}
)

const signatureCode = "SignatureDoesNotMatch"

// explain turns an error of the SDK into an Error. An error that wraps an Error
// already, for example because there are no credentials, becomes that Error.
func explain(op string, err error) error {
	var known *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return known
	}
	e := &Error{Op: op, err: err}
	var api smithy.APIError
	switch {
	case errors.As(err, &api):
		e.Kind, e.Text = explainCode(api)
	case errors.Is(err, context.Canceled):
		e.Kind, e.Text = KindOther, "cancelled"
	case isUnanswered(err):
		e.Kind, e.Text = KindNetwork, describeUnanswered(err)
	default:
		e.Kind, e.Text = KindOther, shorten(innermost(err).Error())
	}
	return e
}

// pages is a paginator of the SDK.
type pages[Options, Page any] interface {
	HasMorePages() bool
	NextPage(ctx context.Context, change ...func(*Options)) (*Page, error)
}

// list returns the items of all pages. op is the operation in errors.
func list[Options, Page, Item any](ctx context.Context, op string, p pages[Options, Page], items func(*Page) []Item) ([]Item, error) {
	var all []Item
	for p.HasMorePages() {
		page, err := p.NextPage(ctx)
		if err != nil {
			return nil, explain(op, err)
		}
		all = append(all, items(page)...)
	}
	return all, nil
}

// explainCode returns the kind and the text of an error of AWS. It does not repeat
// AWS's messages about credentials: they can contain the signed text, and with it a
// session token.
func explainCode(api smithy.APIError) (Kind, string) {
	code := api.ErrorCode()
	switch {
	case code == signatureCode:
		return KindBadCredentials, "the secret access key does not match the access key id: check the credentials"
	case slices.Contains(expiredCodes, code):
		return KindBadCredentials, "the credentials have expired, or the manager's clock is wrong: renew the credentials"
	case slices.Contains(badCodes, code):
		return KindBadCredentials, "the access key does not exist: check the credentials, and that they belong to the region's partition"
	case slices.Contains(badTokenCodes, code):
		return KindBadCredentials, "AWS rejected the identity token: check that the account trusts its issuer and audience"
	case code == "NoSuchEntity" || code == "ResourceNotFoundException" || strings.HasSuffix(code, "NotFound"):
		return KindNotFound, cause("not found", api)
	case slices.Contains(deniedCodes, code):
		return KindDenied, cause("a permission is missing", api)
	case slices.Contains([]string{"RegionDisabledException", "OptInRequired"}, code):
		return KindInvalid, cause("the region is not enabled for the account", api)
	case throttled.IsErrorThrottle(api) == sdkaws.TrueTernary:
		return KindThrottled, "AWS throttled the call"
	}
	return KindOther, cause(code, api)
}

var throttled = retry.ThrottleErrorCode{Codes: retry.DefaultThrottleErrorCodes}

func cause(what string, api smithy.APIError) string {
	if text := shorten(api.ErrorMessage()); text != "" {
		return what + ": " + text
	}
	return what
}

// explainSettings explains why the manager's own settings cannot be used. It does
// not repeat the content of the manager's files.
func explainSettings(err error) error {
	e := &Error{Kind: KindInvalid, Text: "the manager's own AWS settings are invalid: check its environment variables and configuration files", err: err}
	if profile, ok := errors.AsType[config.SharedConfigProfileNotExistError](err); ok {
		e.Text = fmt.Sprintf("the manager has no profile %s: change or remove %s", profile.Profile, profileEnv)
	}
	return e
}

// explainFirst explains why there are no credentials for the first identity of the
// chain.
func explainFirst(err error) error {
	const op = "getting AWS credentials"
	explained := explain(op, err)
	var e *Error
	if !errors.As(explained, &e) {
		return explained
	}
	var operation *smithy.OperationError
	var late *sdkaws.RequestCanceledError
	fromSTS := errors.As(err, &operation) && strings.EqualFold(operation.Service(), stsService)
	switch {
	case fromSTS && e.Kind == KindDenied:
		return &Error{Kind: KindRoleDenied, Op: op, Text: e.Text + "; check the role's trust policy", err: err}
	case fromSTS || errors.As(err, &late):
		// Not the metadata service of the machine, which answers or fails long before
		// the deadline.
		return explained
	}
	return &Error{
		Kind: KindNoCredentials, Op: op, err: err,
		Text: "no credentials found (" + shorten(innermost(err).Error()) + "): add " + accessKeyIDEnv + " and " + accessKeyEnv +
			" to the credentials of the WorkspaceProviderConfig, or assign a role to the manager's service account through IRSA or Pod Identity",
	}
}

// explainRole explains why a role cannot be assumed.
func explainRole(role string) func(error) error {
	return func(err error) error {
		op := "assuming role " + role
		explained := explain(op, err)
		if KindOf(explained) != KindDenied {
			return explained
		}
		var e *Error
		errors.As(explained, &e)
		return &Error{
			Kind: KindRoleDenied, Op: op, err: err,
			Text: e.Text + "; check that the role's trust policy names this identity, and that the identity is allowed to call sts:AssumeRole",
		}
	}
}

// isUnanswered reports whether AWS did not respond.
func isUnanswered(err error) bool {
	var send *smithyhttp.RequestSendError
	var network net.Error
	return errors.As(err, &send) || errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded)
}

func describeUnanswered(err error) string {
	what := "AWS does not respond"
	if request, ok := errors.AsType[*url.Error](err); ok {
		if u, parseErr := url.Parse(request.URL); parseErr == nil && u.Host != "" {
			what = u.Host + " does not respond"
		}
	}
	return what + ": " + shorten(innermost(err).Error())
}

// innermost returns the root cause, without the texts that the SDK wraps around it.
// The error of a file keeps the file's name.
func innermost(err error) error {
	if file, ok := errors.AsType[*fs.PathError](err); ok {
		return file
	}
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}

// maxText is the number of characters that a condition can show.
const maxText = 300

// shorten returns the readable part of a message: EC2 appends a long encoded text.
func shorten(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	text, _, _ = strings.Cut(text, " Encoded authorization failure message")
	return strings.TrimSuffix(message.TruncateWidth(strings.TrimSpace(text), maxText), ".")
}
