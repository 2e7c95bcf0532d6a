package captcontrolplane

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"
)

// observedVersion is the version an API server speaks, without the suffix that
// clouds add. One that emulates an older version is of that version.
func observedVersion(info *apiversion.Info) string {
	if info.EmulationMinor != "" && (info.EmulationMinor != info.Minor || info.EmulationMajor != info.Major) {
		return fmt.Sprintf("v%s.%s.0", info.EmulationMajor, info.EmulationMinor)
	}
	return core(info.GitVersion)
}

// core is a version without suffixes.
func core(text string) string {
	v, err := version.ParseGeneric(text)
	if err != nil {
		return text
	}
	return fmt.Sprintf("v%d.%d.%d", v.Major(), v.Minor(), v.Patch())
}

// reportedVersion is what Cluster API is told. The cloud chooses the patch of a
// minor: a wanted patch above it counts as reached with its minor, or the
// upgrade of a topology would never end, and what was told stays told.
func reportedVersion(observed, wanted, told string) string {
	highest := observed
	for _, text := range []string{wanted, told} {
		have, errHave := version.ParseGeneric(highest)
		other, errOther := version.ParseGeneric(text)
		if errHave == nil && errOther == nil && have.Major() == other.Major() && have.Minor() == other.Minor() && have.LessThan(other) {
			highest = core(text)
		}
	}
	return highest
}
