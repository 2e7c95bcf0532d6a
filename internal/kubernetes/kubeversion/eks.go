package kubeversion

import (
	"fmt"
	"time"
)

// EKSDefault is the Kubernetes version of new EKS clusters in flavors and
// examples. It must be in standard support.
const EKSDefault = "v1.35.0"

// support is how long EKS supports a minor version.
type support struct {
	// standard is the day on which standard support ends, and extended support begins at
	// its higher price. extended is the day on which that ends. Both begin at midnight, UTC.
	standard, extended time.Time
}

// eksSupport is the calendar of EKS, as of November 2026. Versions that it does not contain
// are newer than the calendar or no longer offered.
// Source: https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html
// With an account, `aws eks describe-cluster-versions` prints it.
var eksSupport = map[Minor]support{
	{1, 32}: {day(2026, time.March, 23), day(2027, time.March, 23)},
	{1, 33}: {day(2026, time.July, 29), day(2027, time.July, 29)},
	{1, 34}: {day(2026, time.December, 2), day(2027, time.December, 2)},
	{1, 35}: {day(2027, time.March, 27), day(2028, time.March, 27)},
	{1, 36}: {day(2027, time.August, 2), day(2028, time.August, 2)},
}

func day(year int, month time.Month, of int) time.Time {
	return time.Date(year, month, of, 0, 0, 0, 0, time.UTC)
}

// EKSNotice is how long before the end of standard support EKSWarning warns of it. EKS
// announces the end at least as early.
const EKSNotice = 60 * 24 * time.Hour

// eksPrices are those of a control plane, in every region.
const eksPrices = "0.60 instead of 0.10 USD per hour"

// EKSStandardSupportEnd returns when EKS ends the standard support of a Kubernetes version, or
// the zero time for a version that the calendar does not contain.
func EKSStandardSupportEnd(version string) time.Time {
	minor, err := Parse(version)
	if err != nil {
		return time.Time{}
	}
	return eksSupport[minor].standard
}

// EKSWarning returns a warning if EKS no longer gives a Kubernetes version standard
// support, or ends it within EKSNotice, and an empty string otherwise.
func EKSWarning(version string, now time.Time) string {
	minor, err := Parse(version)
	if err != nil {
		return ""
	}
	has, known := eksSupport[minor]
	switch {
	case !known && minor.Less(oldestEKS()):
		return fmt.Sprintf("EKS no longer offers Kubernetes %s: set %s", minor, EKSDefault)
	case !known || now.Before(has.standard.Add(-EKSNotice)):
		return ""
	case now.Before(has.standard):
		return fmt.Sprintf("EKS ends the standard support of Kubernetes %s on %s: the control plane then costs %s, until %s. Set a later version, such as %s",
			minor, has.standard.Format(time.DateOnly), eksPrices, has.extended.Format(time.DateOnly), EKSDefault)
	case !now.Before(has.extended):
		return fmt.Sprintf("EKS ended its support of Kubernetes %s on %s and upgrades such clusters itself: set a later version, such as %s",
			minor, has.extended.Format(time.DateOnly), EKSDefault)
	}
	return fmt.Sprintf("Kubernetes %s is in extended support of EKS since %s, and until %s: the control plane costs %s. Set a later version, such as %s",
		minor, has.standard.Format(time.DateOnly), has.extended.Format(time.DateOnly), eksPrices, EKSDefault)
}

func oldestEKS() Minor {
	oldest, _ := Parse(EKSDefault)
	for minor := range eksSupport {
		if minor.Less(oldest) {
			oldest = minor
		}
	}
	return oldest
}
