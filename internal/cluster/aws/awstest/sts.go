package awstest

import (
	"encoding/xml"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// AddRole lets the account's users and sessions assume a role.
func (s *Server) AddRole(name string) (arn string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	arn = "arn:aws:iam::" + s.Account + ":role/" + name
	s.assumable[arn] = true
	return arn
}

// TrustToken lets the bearer of a web identity token assume every role.
func (s *Server) TrustToken(token string) {
	s.TrustTokens(func(presented string) bool { return presented == token })
}

// TrustTokens lets the bearer of a web identity token that verify accepts assume every role.
func (s *Server) TrustTokens(verify func(token string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verifyToken = verify
}

// Session returns the keys of a session of a role.
func (s *Server) Session(role, name string) Keys {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.issueSession(role, name, time.Hour)
}

func (s *Server) issueSession(role, name string, duration time.Duration) Keys {
	return s.issue("arn:aws:sts::"+s.Account+":assumed-role/"+role+"/"+name, "ASIA", duration)
}

// LimitSessions limits the duration of sessions that are created from now on.
func (s *Server) LimitSessions(duration time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessionDuration = duration
}

type metadata struct {
	RequestID string `xml:"RequestId"`
}

type sessionKeys struct {
	AccessKeyID     string `xml:"AccessKeyId"`
	SecretAccessKey string
	SessionToken    string
	Expiration      string
}

type assumedUser struct {
	AssumedRoleID string `xml:"AssumedRoleId"`
	Arn           string
}

type session struct {
	Credentials     sessionKeys
	AssumedRoleUser assumedUser
}

func (s *Server) getCallerIdentity(c call) (any, error) {
	type result struct {
		Account string
		Arn     string
		UserID  string `xml:"UserId"`
	}
	return struct {
		XMLName  xml.Name `xml:"GetCallerIdentityResponse"`
		Result   result   `xml:"GetCallerIdentityResult"`
		Metadata metadata `xml:"ResponseMetadata"`
	}{
		Result:   result{Account: s.Account, Arn: c.caller.ARN, UserID: c.caller.AccessKeyID},
		Metadata: metadata{requestID},
	}, nil
}

func (s *Server) assumeRole(c call) (any, error) {
	if !s.assumable[c.form.Get("RoleArn")] {
		return nil, denied(c, c.form.Get("RoleArn"))
	}
	created, err := s.createSession(c)
	if err != nil {
		return nil, err
	}
	return struct {
		XMLName  xml.Name `xml:"AssumeRoleResponse"`
		Result   session  `xml:"AssumeRoleResult"`
		Metadata metadata `xml:"ResponseMetadata"`
	}{Result: created, Metadata: metadata{requestID}}, nil
}

func (s *Server) assumeRoleWithWebIdentity(c call) (any, error) {
	if s.verifyToken == nil || !s.verifyToken(c.form.Get("WebIdentityToken")) {
		return nil, refuse(http.StatusBadRequest, "InvalidIdentityToken", "No OpenIDConnect provider found in your account")
	}
	if !s.assumable[c.form.Get("RoleArn")] {
		return nil, refuse(http.StatusForbidden, "AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity")
	}
	created, err := s.createSession(c)
	if err != nil {
		return nil, err
	}
	return struct {
		XMLName  xml.Name `xml:"AssumeRoleWithWebIdentityResponse"`
		Result   session  `xml:"AssumeRoleWithWebIdentityResult"`
		Metadata metadata `xml:"ResponseMetadata"`
	}{Result: created, Metadata: metadata{requestID}}, nil
}

// createSession creates a session. Its duration has the same bounds as in AWS.
func (s *Server) createSession(c call) (session, error) {
	duration := time.Hour
	if text := c.form.Get("DurationSeconds"); text != "" {
		seconds, err := strconv.Atoi(text)
		if err != nil || seconds < 900 || seconds > 3600 {
			return session{}, refuse(http.StatusBadRequest, "ValidationError", "The requested DurationSeconds exceeds the MaxSessionDuration set for this role.")
		}
		duration = time.Duration(seconds) * time.Second
	}
	if s.sessionDuration > 0 {
		duration = min(duration, s.sessionDuration)
	}
	role := c.form.Get("RoleArn")
	name := role[strings.LastIndex(role, "/")+1:]
	k := s.issueSession(name, c.form.Get("RoleSessionName"), duration)
	return session{
		Credentials: sessionKeys{
			AccessKeyID: k.AccessKeyID, SecretAccessKey: k.SecretAccessKey, SessionToken: k.SessionToken,
			Expiration: k.Expires.UTC().Format(time.RFC3339),
		},
		AssumedRoleUser: assumedUser{AssumedRoleID: "AROA" + name + ":" + c.form.Get("RoleSessionName"), Arn: k.ARN},
	}, nil
}
