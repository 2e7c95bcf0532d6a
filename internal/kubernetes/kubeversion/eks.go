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
	// standard is the last day of standard support, extended that of extended
	// support.
	standard, extended time.Time
}

// eksSupport is the calendar of EKS. Versions that it does not contain are newer
// than the calendar or no longer offered.
// Source: https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html
var eksSupport = map[Minor]support{
	{1, 29}: {day(2025, time.March, 23), day(2026, time.March, 23)},
	{1, 30}: {day(2025, time.July, 23), day(2026, time.July, 23)},
	{1, 31}: {day(2025, time.November, 26), day(2026, time.November, 26)},
	{1, 32}: {day(2026, time.March, 23), day(2027, time.March, 23)},
	{1, 33}: {day(2026, time.July, 29), day(2027, time.July, 29)},
	{1, 34}: {day(2026, time.December, 2), day(2027, time.December, 2)},
	{1, 35}: {day(2027, time.March, 27), day(2028, time.March, 27)},
	{1, 36}: {day(2027, time.August, 2), day(2028, time.August, 2)},
}

func day(year int, month time.Month, of int) time.Time {
	return time.Date(year, month, of, 0, 0, 0, 0, time.UTC)
}

// EKSWarning returns a warning if EKS no longer gives a Kubernetes version standard
// support, and an empty string otherwise.
func EKSWarning(version string, now time.Time) string {
	minor, err := Parse(version)
	if err != nil {
		return ""
	}
	has, known := eksSupport[minor]
	switch {
	case !known && minor.Less(oldestEKS()):
		return fmt.Sprintf("EKS no longer offers Kubernetes %s: set %s", minor, EKSDefault)
	case !known || !ended(has.standard, now):
		return ""
	case ended(has.extended, now):
		return fmt.Sprintf("EKS ended its support of Kubernetes %s on %s and upgrades such clusters itself: set a later version, such as %s",
			minor, has.extended.Format(time.DateOnly), EKSDefault)
	}
	return fmt.Sprintf("Kubernetes %s is in extended support of EKS, at a higher price, since %s, and until %s: set a later version, such as %s",
		minor, has.standard.Format(time.DateOnly), has.extended.Format(time.DateOnly), EKSDefault)
}

// ended reports whether a period whose last day is given has ended.
func ended(last, now time.Time) bool { return !now.Before(last.AddDate(0, 0, 1)) }

func oldestEKS() Minor {
	oldest, _ := Parse(EKSDefault)
	for minor := range eksSupport {
		if minor.Less(oldest) {
			oldest = minor
		}
	}
	return oldest
}
