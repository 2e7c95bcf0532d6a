package account

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"
)

// owns reports whether a name is that of something of the run: it contains the name of its
// cluster.
func (r Run) owns(name string) bool {
	_, rest, found := strings.Cut(name, r.Cluster())
	return found && (rest == "" || strings.HasPrefix(rest, "-") || strings.HasPrefix(rest, "/"))
}

func (a *Account) instanceProfiles(ctx context.Context, run Run) ([]resource, error) {
	var found []resource
	pages := iam.NewListInstanceProfilesPaginator(a.iam, &iam.ListInstanceProfilesInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing instance profiles: %w", err)
		}
		for _, profile := range page.InstanceProfiles {
			if !run.owns(*profile.InstanceProfileName) {
				continue
			}
			found = append(found, resource{"instance profile " + *profile.InstanceProfileName, func(ctx context.Context) error {
				for _, role := range profile.Roles {
					if _, err := a.iam.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: profile.InstanceProfileName, RoleName: role.RoleName}); err != nil && !isGone(err) {
						return err
					}
				}
				_, err := a.iam.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: profile.InstanceProfileName})
				return err
			}})
		}
	}
	return sorted(found), nil
}

func (a *Account) roles(ctx context.Context, run Run) ([]resource, error) {
	var found []resource
	pages := iam.NewListRolesPaginator(a.iam, &iam.ListRolesInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing roles: %w", err)
		}
		for _, role := range page.Roles {
			if run.owns(*role.RoleName) {
				found = append(found, resource{"role " + *role.RoleName, func(ctx context.Context) error { return a.deleteRole(ctx, role.RoleName) }})
			}
		}
	}
	return sorted(found), nil
}

// deleteRole deletes a role with its policies.
func (a *Account) deleteRole(ctx context.Context, name *string) error {
	attached, err := a.iam.ListAttachedRolePolicies(ctx, &iam.ListAttachedRolePoliciesInput{RoleName: name})
	if err != nil {
		return err
	}
	for _, policy := range attached.AttachedPolicies {
		if _, err := a.iam.DetachRolePolicy(ctx, &iam.DetachRolePolicyInput{RoleName: name, PolicyArn: policy.PolicyArn}); err != nil {
			return err
		}
	}
	inline, err := a.iam.ListRolePolicies(ctx, &iam.ListRolePoliciesInput{RoleName: name})
	if err != nil {
		return err
	}
	for _, policy := range inline.PolicyNames {
		if _, err := a.iam.DeleteRolePolicy(ctx, &iam.DeleteRolePolicyInput{RoleName: name, PolicyName: &policy}); err != nil {
			return err
		}
	}
	_, err = a.iam.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: name})
	return err
}

// users returns the users of a run, which have keys and policies.
func (a *Account) users(ctx context.Context, run Run) ([]resource, error) {
	var found []resource
	pages := iam.NewListUsersPaginator(a.iam, &iam.ListUsersInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing users: %w", err)
		}
		for _, user := range page.Users {
			if run.owns(*user.UserName) {
				found = append(found, resource{"user " + *user.UserName, func(ctx context.Context) error { return a.deleteUser(ctx, user.UserName) }})
			}
		}
	}
	return sorted(found), nil
}

// deleteUser deletes a user with its keys, and detaches its policies.
func (a *Account) deleteUser(ctx context.Context, name *string) error {
	keys, err := a.iam.ListAccessKeys(ctx, &iam.ListAccessKeysInput{UserName: name})
	if err != nil {
		return err
	}
	for _, key := range keys.AccessKeyMetadata {
		if _, err := a.iam.DeleteAccessKey(ctx, &iam.DeleteAccessKeyInput{UserName: name, AccessKeyId: key.AccessKeyId}); err != nil {
			return err
		}
	}
	attached, err := a.iam.ListAttachedUserPolicies(ctx, &iam.ListAttachedUserPoliciesInput{UserName: name})
	if err != nil {
		return err
	}
	for _, policy := range attached.AttachedPolicies {
		if _, err := a.iam.DetachUserPolicy(ctx, &iam.DetachUserPolicyInput{UserName: name, PolicyArn: policy.PolicyArn}); err != nil {
			return err
		}
	}
	_, err = a.iam.DeleteUser(ctx, &iam.DeleteUserInput{UserName: name})
	return err
}

func (a *Account) policies(ctx context.Context, run Run) ([]resource, error) {
	var found []resource
	pages := iam.NewListPoliciesPaginator(a.iam, &iam.ListPoliciesInput{Scope: types.PolicyScopeTypeLocal})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing policies: %w", err)
		}
		for _, policy := range page.Policies {
			if !run.owns(*policy.PolicyName) {
				continue
			}
			found = append(found, resource{"policy " + *policy.PolicyName, func(ctx context.Context) error {
				versions, err := a.iam.ListPolicyVersions(ctx, &iam.ListPolicyVersionsInput{PolicyArn: policy.Arn})
				if err != nil {
					return err
				}
				for _, version := range versions.Versions {
					if version.IsDefaultVersion {
						continue
					}
					if _, err := a.iam.DeletePolicyVersion(ctx, &iam.DeletePolicyVersionInput{PolicyArn: policy.Arn, VersionId: version.VersionId}); err != nil {
						return err
					}
				}
				_, err = a.iam.DeletePolicy(ctx, &iam.DeletePolicyInput{PolicyArn: policy.Arn})
				return err
			}})
		}
	}
	return sorted(found), nil
}

// identityProviders returns the OIDC providers with the tag of a run: their names are those
// of issuers.
func (a *Account) identityProviders(ctx context.Context, run Run) ([]resource, error) {
	out, err := a.iam.ListOpenIDConnectProviders(ctx, &iam.ListOpenIDConnectProvidersInput{})
	if err != nil {
		return nil, fmt.Errorf("listing OIDC providers: %w", err)
	}
	var found []resource
	for _, provider := range out.OpenIDConnectProviderList {
		tags, err := a.iam.ListOpenIDConnectProviderTags(ctx, &iam.ListOpenIDConnectProviderTagsInput{OpenIDConnectProviderArn: provider.Arn})
		if isGone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the tags of an OIDC provider: %w", err)
		}
		for _, tag := range tags.Tags {
			if aws.ToString(tag.Key) == TagKey && aws.ToString(tag.Value) == run.ID {
				found = append(found, resource{"OIDC provider " + *provider.Arn, calling(a.iam.DeleteOpenIDConnectProvider, &iam.DeleteOpenIDConnectProviderInput{OpenIDConnectProviderArn: provider.Arn})})
			}
		}
	}
	return sorted(found), nil
}

func (a *Account) logGroups(ctx context.Context, run Run) ([]resource, error) {
	var answer struct {
		LogGroups []struct {
			Name string `json:"logGroupName"`
		} `json:"logGroups"`
	}
	if err := a.post(ctx, "logs", "Logs_20140328.DescribeLogGroups", map[string]any{"logGroupNamePrefix": "/aws/eks/" + run.Cluster() + "/"}, &answer); err != nil {
		return nil, err
	}
	var found []resource
	for _, group := range answer.LogGroups {
		found = append(found, resource{"log group " + group.Name, func(ctx context.Context) error {
			return a.post(ctx, "logs", "Logs_20140328.DeleteLogGroup", map[string]any{"logGroupName": group.Name}, nil)
		}})
	}
	return found, nil
}

// keys returns the alias of the key of a run. Its deletion schedules that of the key, for
// which AWS waits a week at least.
func (a *Account) keys(ctx context.Context, run Run) ([]resource, error) {
	var found []resource
	for marker := ""; ; {
		var answer struct {
			Aliases []struct {
				Name string `json:"AliasName"`
				Key  string `json:"TargetKeyId"`
			}
			NextMarker string
			Truncated  bool
		}
		body := map[string]any{}
		if marker != "" {
			body["Marker"] = marker
		}
		if err := a.post(ctx, "kms", "TrentService.ListAliases", body, &answer); err != nil {
			return nil, err
		}
		for _, alias := range answer.Aliases {
			if alias.Name != "alias/eks/"+run.Cluster() {
				continue
			}
			found = append(found, resource{"key " + alias.Name, func(ctx context.Context) error {
				return inOrder(func() error { return a.deleteKey(ctx, alias.Key) }, func() error {
					return a.post(ctx, "kms", "TrentService.DeleteAlias", map[string]any{"AliasName": alias.Name}, nil)
				})
			}})
		}
		if marker = answer.NextMarker; !answer.Truncated || marker == "" {
			return found, nil
		}
	}
}

// taggedKeys returns the keys of a run that have no alias yet, or none any more.
func (a *Account) taggedKeys(ctx context.Context, run Run) ([]resource, error) {
	var answer struct {
		Resources []struct {
			ARN string `json:"ResourceARN"`
		} `json:"ResourceTagMappingList"`
	}
	if err := a.post(ctx, "tagging", "ResourceGroupsTaggingAPI_20170126.GetResources", map[string]any{
		"TagFilters": []any{map[string]any{"Key": TagKey, "Values": []string{run.ID}}}, "ResourceTypeFilters": []string{"kms:key"},
	}, &answer); err != nil {
		return nil, err
	}
	var found []resource
	for _, key := range answer.Resources {
		enabled, err := a.isKept(ctx, key.ARN)
		if err != nil {
			return nil, err
		}
		if enabled {
			id := key.ARN[strings.LastIndex(key.ARN, "/")+1:]
			found = append(found, resource{"key " + key.ARN, func(ctx context.Context) error { return a.deleteKey(ctx, id) }})
		}
	}
	return sorted(found), nil
}

// isKept reports whether a key exists and no deletion of it is scheduled.
func (a *Account) isKept(ctx context.Context, key string) (bool, error) {
	var answer struct{ KeyMetadata struct{ KeyState string } }
	err := a.post(ctx, "kms", "TrentService.DescribeKey", map[string]any{"KeyId": key}, &answer)
	if isGone(err) {
		return false, nil
	}
	return answer.KeyMetadata.KeyState != "PendingDeletion", err
}

// deleteKey schedules the deletion of a key, unless it is scheduled already.
func (a *Account) deleteKey(ctx context.Context, key string) error {
	kept, err := a.isKept(ctx, key)
	if err != nil || !kept {
		return err
	}
	const waitingDays = 7
	return a.post(ctx, "kms", "TrentService.ScheduleKeyDeletion", map[string]any{"KeyId": key, "PendingWindowInDays": waitingDays}, nil)
}

func (a *Account) queues(ctx context.Context, run Run) ([]resource, error) {
	var answer struct {
		QueueURLs []string `json:"QueueUrls"`
	}
	if err := a.post(ctx, "sqs", "AmazonSQS.ListQueues", map[string]any{}, &answer); err != nil {
		return nil, err
	}
	var found []resource
	for _, address := range answer.QueueURLs {
		if run.owns(address[strings.LastIndex(address, "/")+1:]) {
			found = append(found, resource{"queue " + address, func(ctx context.Context) error {
				return a.post(ctx, "sqs", "AmazonSQS.DeleteQueue", map[string]any{"QueueUrl": address}, nil)
			}})
		}
	}
	return found, nil
}

func (a *Account) rules(ctx context.Context, run Run) ([]resource, error) {
	var answer struct {
		Rules []struct{ Name, Description string }
	}
	if err := a.post(ctx, "events", "AWSEvents.ListRules", map[string]any{}, &answer); err != nil {
		return nil, err
	}
	var found []resource
	for _, rule := range answer.Rules {
		if !run.owns(rule.Name) && !run.owns(rule.Description) {
			continue
		}
		found = append(found, resource{"rule " + rule.Name, func(ctx context.Context) error {
			var targets struct {
				Targets []struct {
					ID string `json:"Id"`
				}
			}
			if err := a.post(ctx, "events", "AWSEvents.ListTargetsByRule", map[string]any{"Rule": rule.Name}, &targets); err != nil {
				return err
			}
			var ids []string
			for _, target := range targets.Targets {
				ids = append(ids, target.ID)
			}
			if len(ids) > 0 {
				if err := a.post(ctx, "events", "AWSEvents.RemoveTargets", map[string]any{"Rule": rule.Name, "Ids": ids}, nil); err != nil {
					return err
				}
			}
			return a.post(ctx, "events", "AWSEvents.DeleteRule", map[string]any{"Name": rule.Name}, nil)
		}})
	}
	return found, nil
}
