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
)

// Kind says what is wrong, and so what can be done about it.
type Kind string

// The kinds of errors.
const (
	// KindNoCredentials means that there is nothing to sign with.
	KindNoCredentials Kind = "NoCredentials"
	// KindBadCredentials means that AWS does not accept the credentials: they
	// are unknown, wrong or have ended.
	KindBadCredentials Kind = "BadCredentials"
	// KindRoleDenied means that the role may not be assumed.
	KindRoleDenied Kind = "RoleDenied"
	// KindDenied means that a permission is missing.
	KindDenied Kind = "Denied"
	// KindNotFound means that what was asked for does not exist.
	KindNotFound Kind = "NotFound"
	// KindInvalid means that what was asked for cannot work.
	KindInvalid Kind = "Invalid"
	// KindNetwork means that AWS did not answer.
	KindNetwork Kind = "Network"
	// KindThrottled means that AWS wants to be asked later.
	KindThrottled Kind = "Throttled"
	// KindOther is everything else, such as a fault inside AWS.
	KindOther Kind = "Other"
)

// Error is the error of every function of this package. Its text is for users: it
// contains no request id and no secret. The wrapped error is for errors.Is and
// errors.As only and must not be shown.
type Error struct {
	Kind Kind
	// Op is what was being done, as an -ing phrase.
	Op string
	// Text is what is wrong and what can be done.
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

// Temporary reports whether the same call may succeed later although no user has
// changed anything.
func (e *Error) Temporary() bool {
	return slices.Contains([]Kind{KindNetwork, KindThrottled, KindOther}, e.Kind)
}

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

// Codes that AWS answers with.
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

// explain turns what the SDK returns into an Error. One that says already why
// there are no credentials is passed on.
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
		e.Kind, e.Text = KindOther, "given up"
	case unanswered(err):
		e.Kind, e.Text = KindNetwork, noAnswer(err)
	default:
		e.Kind, e.Text = KindOther, tidy(innermost(err).Error())
	}
	return e
}

// explainCode does not repeat what AWS says about credentials: it can contain
// what was signed, and with it a session token.
func explainCode(api smithy.APIError) (Kind, string) {
	code := api.ErrorCode()
	switch {
	case code == signatureCode:
		return KindBadCredentials, "the secret access key does not fit the access key id"
	case slices.Contains(expiredCodes, code):
		return KindBadCredentials, "the credentials have ended, or the manager's clock is wrong: renew the credentials"
	case slices.Contains(badCodes, code):
		return KindBadCredentials, "AWS does not know the access key: check the credentials, and that they are of the region's partition"
	case slices.Contains(badTokenCodes, code):
		return KindBadCredentials, "AWS does not accept the identity token: check that the account trusts its issuer and audience"
	case code == "NoSuchEntity" || strings.HasSuffix(code, ".NotFound"):
		return KindNotFound, cause("not found", api)
	case slices.Contains(deniedCodes, code):
		return KindDenied, cause("a permission is missing", api)
	case slices.Contains([]string{"RegionDisabledException", "OptInRequired"}, code):
		return KindInvalid, cause("the account does not use the region", api)
	case throttled.IsErrorThrottle(api) == sdkaws.TrueTernary:
		return KindThrottled, "AWS is asked too often"
	}
	return KindOther, cause(code, api)
}

var throttled = retry.ThrottleErrorCode{Codes: retry.DefaultThrottleErrorCodes}

func cause(what string, api smithy.APIError) string {
	if text := tidy(api.ErrorMessage()); text != "" {
		return what + ": " + text
	}
	return what
}

// explainSettings explains why the manager's own settings cannot be used. What
// is in its files is not repeated.
func explainSettings(err error) error {
	e := &Error{Kind: KindInvalid, Text: "the manager's own settings for AWS, in its environment and its files, do not parse", err: err}
	if profile, ok := errors.AsType[config.SharedConfigProfileNotExistError](err); ok {
		e.Text = fmt.Sprintf("the manager has no profile %s: change or remove %s", profile.Profile, profileEnv)
	}
	return e
}

// explainFirst explains why the first identity of the chain cannot be had.
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
		// The metadata services of a machine answer or fail long before it gets late.
		return explained
	}
	return &Error{
		Kind: KindNoCredentials, Op: op, err: err,
		Text: "none are found (" + tidy(innermost(err).Error()) + "): add " + accessKeyIDEnv + " and " + accessKeyEnv +
			" to the credentials of the WorkspaceProviderConfig, or give the manager's service account a role by IRSA or Pod Identity",
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
			Text: e.Text + "; check that the role's trust policy names this identity and that the identity may sts:AssumeRole it",
		}
	}
}

// unanswered reports whether AWS did not respond.
func unanswered(err error) bool {
	var send *smithyhttp.RequestSendError
	var network net.Error
	return errors.As(err, &send) || errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded)
}

func noAnswer(err error) string {
	what := "AWS does not answer"
	if request, ok := errors.AsType[*url.Error](err); ok {
		if u, parseErr := url.Parse(request.URL); parseErr == nil && u.Host != "" {
			what = u.Host + " does not answer"
		}
	}
	return what + ": " + tidy(innermost(err).Error())
}

// innermost returns the cause of all, without what the SDK says around it. A
// file keeps its name.
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

// longestText is as much as a condition can show.
const longestText = 300

// tidy keeps the readable part: EC2 appends a long encoded text.
func tidy(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	text, _, _ = strings.Cut(text, " Encoded authorization failure message")
	text = strings.TrimSpace(text)
	if runes := []rune(text); len(runes) > longestText {
		text = string(runes[:longestText]) + "…"
	}
	return strings.TrimSuffix(text, ".")
}
