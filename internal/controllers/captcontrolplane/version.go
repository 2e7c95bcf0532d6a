package captcontrolplane

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"
)

// observedVersion returns the version that an API server serves, without the
// suffix that cloud providers add. An API server that emulates an older version
// serves that one.
func observedVersion(info *apiversion.Info) string {
	if info.EmulationMinor != "" && (info.EmulationMinor != info.Minor || info.EmulationMajor != info.Major) {
		return fmt.Sprintf("v%s.%s.0", info.EmulationMajor, info.EmulationMinor)
	}
	return withoutSuffix(info.GitVersion)
}

// withoutSuffix returns a version as vMAJOR.MINOR.PATCH. Text that is not a
// version is returned unchanged.
func withoutSuffix(text string) string {
	v, err := version.ParseGeneric(text)
	if err != nil {
		return text
	}
	return fmt.Sprintf("v%d.%d.%d", v.Major(), v.Minor(), v.Patch())
}

// reportedVersion returns the version for the status. The cloud provider chooses
// the patch version: a higher patch in the spec counts as reached with its minor,
// because the upgrade of a topology would never end otherwise. A version that was
// reported before is not lowered within its minor.
func reportedVersion(observed, spec, reported string) string {
	highest := observed
	for _, text := range []string{spec, reported} {
		have, errHave := version.ParseGeneric(highest)
		other, errOther := version.ParseGeneric(text)
		if errHave == nil && errOther == nil && have.Major() == other.Major() && have.Minor() == other.Minor() && have.LessThan(other) {
			highest = withoutSuffix(text)
		}
	}
	return highest
}
