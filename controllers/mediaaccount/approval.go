package mediaaccount

import (
	"time"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/runtime/account"
)

// What passes without an owner where the spec says Bulk alone.
const (
	defaultBulkItems  = 20
	defaultBulkWindow = time.Hour
)

// toApproval converts which changes wait for an owner. Without the spec, none does.
func toApproval(spec *v1alpha1.MCPApprovalSpec) account.Approval {
	if spec == nil {
		return account.Approval{}
	}
	approval := account.Approval{Publish: toRule(spec.Publish), Settings: toRule(spec.Settings)}
	switch spec.Delete {
	case v1alpha1.DeleteApprovalAlways:
		approval.Delete = account.RuleAlways
	case v1alpha1.DeleteApprovalBulk:
		approval.Delete, approval.BulkItems, approval.BulkWindow = account.RuleBulk, defaultBulkItems, defaultBulkWindow
		if bulk := spec.Bulk; bulk != nil && bulk.Items > 0 {
			approval.BulkItems = bulk.Items
		}
		if bulk := spec.Bulk; bulk != nil && bulk.Per != nil {
			approval.BulkWindow = bulk.Per.Duration
		}
	case v1alpha1.DeleteApprovalNever:
	}
	return approval
}

func toRule(rule v1alpha1.ChangeApproval) account.Rule {
	if rule == v1alpha1.ChangeApprovalAlways {
		return account.RuleAlways
	}
	return ""
}

// toCeilings converts the ceilings. Without the spec, there is none.
func toCeilings(spec *v1alpha1.MCPCeilingsSpec) account.Ceilings {
	if spec == nil {
		return account.Ceilings{}
	}
	ceilings := account.Ceilings{Each: toCeiling(spec.MCPCeiling)}
	if spec.Total != nil {
		ceilings.Total = toCeiling(*spec.Total)
	}
	return ceilings
}

func toCeiling(spec v1alpha1.MCPCeiling) account.Ceiling {
	ceiling := account.Ceiling{UploadBytesPerDay: bytesOrDefault(spec.UploadBytesPerDay, 0)}
	if spec.DeletesPerHour != nil {
		ceiling.DeletesPerHour = *spec.DeletesPerHour
	}
	if spec.FetchesPerDay != nil {
		ceiling.FetchesPerDay = *spec.FetchesPerDay
	}
	return ceiling
}
