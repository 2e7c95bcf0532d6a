package main

import "net/url"

// customImage is the type of an image that EKS does not know.
const customImage = "CUSTOM"

// launchTemplate is what a node group takes from a version of its launch template.
type launchTemplate struct {
	Groups []string `xml:"launchTemplateVersionSet>item>launchTemplateData>securityGroupIdSet>item"`
	Image  string   `xml:"launchTemplateVersionSet>item>launchTemplateData>imageId"`
}

// launchTemplateOf returns the launch template of a node group. It is empty if the group
// has none.
func (e *eks) launchTemplateOf(c *call, group values) (launchTemplate, error) {
	var found launchTemplate
	template := child(group, "launchTemplate")
	if template == nil {
		return found, nil
	}
	err := e.inEC2(c).do(c.Context(), "DescribeLaunchTemplateVersions", url.Values{
		"LaunchTemplateId": {text(template, "id")}, "LaunchTemplateVersion.1": {text(template, "version")},
	}, &found)
	return found, err
}

// setImage sets the image and the version of a node group for a request that creates or
// updates it. If the launch template names an image, EKS rejects requests with a version,
// a release or a type of image, and the nodes have the version of that image: here, that
// of the cluster.
func (e *eks) setImage(c *call, cluster, group, requested values) error {
	template, err := e.launchTemplateOf(c, requested)
	if err != nil || template.Image == "" {
		return err
	}
	for _, field := range []string{"version", "releaseVersion", "amiType"} {
		if text(requested, field) != "" {
			return invalid("You cannot specify the field %s when the launch template specifies an image", field)
		}
	}
	if _, err := e.architecture(c, template.Image); err != nil {
		return err
	}
	group["amiType"], group["releaseVersion"], group["version"] = customImage, template.Image, text(cluster, "version")
	return nil
}

// architecture returns the architecture of an image.
func (e *eks) architecture(c *call, image string) (string, error) {
	var found struct {
		Architectures []string `xml:"imagesSet>item>architecture"`
	}
	if err := e.inEC2(c).do(c.Context(), "DescribeImages", url.Values{"ImageId.1": {image}}, &found); err != nil {
		return "", err
	}
	if len(found.Architectures) != 1 {
		return "", invalid("The image %s does not exist", image)
	}
	return found.Architectures[0], nil
}
