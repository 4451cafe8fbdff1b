package v1alpha1_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"mediastack.dev/hack/testenv"
	"mediastack.dev/hack/testenv/check"
	"mediastack.dev/hack/testenv/kubetest"
	"mediastack.dev/hack/testenv/wait"
	"mediastack.dev/runtime/account"
	"mediastack.dev/runtime/upload"
)

var must = check.NoError

func TestMain(m *testing.M) { testenv.Main(m) }

// setup returns the resource of one kind in a namespace of the test's own.
func setup(t *testing.T, resource string) dynamic.ResourceInterface {
	t.Helper()
	config := kubetest.Access(t)
	clients, err := kubernetes.NewForConfig(config)
	must(t, err)
	namespace, err := clients.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "api-"}}, metav1.CreateOptions{})
	must(t, err)
	client, err := dynamic.NewForConfig(config)
	must(t, err)
	return client.Resource(schema.GroupVersionResource{Group: "mediastack.dev", Version: "v1alpha1", Resource: resource}).Namespace(namespace.Name)
}

// object builds a custom resource from the YAML of its spec.
func object(t *testing.T, kind, name, spec string) *unstructured.Unstructured {
	t.Helper()
	var value map[string]any
	if err := yaml.Unmarshal([]byte(spec), &value); err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	if value == nil {
		value = map[string]any{}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "mediastack.dev/v1alpha1", "kind": kind,
		"metadata": map[string]any{"name": name}, "spec": value,
	}}
}

func TestMediaAccount_InvalidIsRejectedWithAMessage(t *testing.T) {
	t.Parallel()
	accounts := setup(t, "mediaaccounts")
	const (
		quantity    = "must be a quantity of bytes such as 10Gi"
		capBounds   = "must be at least 1Mi and at most 4Ei"
		uploadSize  = "must be above 0 and at most 80000Mi"
		email       = "must be an e-mail address such as ana@example.org; e-mail addresses are ASCII: write an international domain as xn--..., with ASCII characters before the @"
		bucket      = "must be an S3 bucket name"
		reserved    = "must not look like an IP address or use a prefix or suffix that S3 reserves"
		label       = "must be a DNS label"
		overlap     = "must be a duration from 0s to 720h, such as 24h or 1h30m"
		rotation    = "must be a duration from 1h to 8784h, such as 720h"
		deletion    = "must be a duration from 0s to 8784h, such as 24h"
		restoreFrom = "must be the name of a RetainedMediaAccount, which is a UUID"
		journal     = "must be a duration of whole seconds from 24h to 9600h, such as 168h"
		entries     = "must be names of Secret entries that the operator does not use itself"
	)
	cases := map[string]struct{ name, spec, says string }{
		"a search in another language":                    {spec: `{search: {language: english}}`, says: "Unsupported value"},
		"a search of a key that metadata cannot have":     {spec: `{search: {metadata: [Title]}}`, says: "must be a key of metadata"},
		"a search of a key twice":                         {spec: `{search: {metadata: [title, title]}}`, says: "Duplicate value"},
		"a gate without a scanner":                        {spec: `{gate: {}}`, says: "gate.scanner: Required value"},
		"a gate with another scanner":                     {spec: `{gate: {scanner: "tcp://10.0.0.1:3310"}}`, says: "Unsupported value"},
		"a gate with another policy":                      {spec: `{gate: {scanner: clamd, onUnavailable: Deny}}`, says: "Unsupported value"},
		"a gate that scans nothing":                       {spec: `{gate: {scanner: clamd, maxScanBytes: 0}}`, says: "must be above 0 and at most 4Gi"},
		"a gate that scans too much":                      {spec: `{gate: {scanner: clamd, maxScanBytes: 5Gi}}`, says: "must be above 0 and at most 4Gi"},
		"a gate that scans no quantity":                   {spec: `{gate: {scanner: clamd, maxScanBytes: much}}`, says: "must be a quantity of bytes such as 100Mi"},
		"a gate that scans a fraction":                    {spec: `{gate: {scanner: clamd, maxScanBytes: 100m}}`, says: "must be a whole number of bytes: 100m is in thousandths; did you mean 100M?"},
		"a quota that is no quantity":                     {spec: `{storage: {maxStorage: plenty}}`, says: quantity},
		"an unknown unit":                                 {spec: `{storage: {maxStorage: 10Gib}}`, says: quantity},
		"a quota of zero":                                 {spec: `{storage: {maxStorage: 0}}`, says: capBounds},
		"a negative quota":                                {spec: `{storage: {maxStorage: -1Gi}}`, says: capBounds},
		"a quota above the maximum":                       {spec: `{storage: {maxStorage: 5Ei}}`, says: capBounds},
		"a quota above int64":                             {spec: `{storage: {maxStorage: "1e400"}}`, says: capBounds},
		"a quota of one byte, meant as megabytes":         {spec: `{storage: {maxStorage: 100m}}`, says: "must be a whole number of bytes: 100m is in thousandths; did you mean 100M?"},
		"a quota in millionths":                           {spec: `{storage: {maxStorage: 5000000000000u}}`, says: "must be a whole number of bytes: 5000000000000u is a fraction"},
		"a quota below the minimum":                       {spec: `{storage: {maxStorage: 1023Ki}}`, says: capBounds},
		"an upload size of a fraction":                    {spec: `{storage: {maxUploadSize: 2500m}}`, says: "2500m is in thousandths; did you mean 2500M?"},
		"an upload size of zero":                          {spec: `{storage: {maxUploadSize: "0"}}`, says: uploadSize},
		"an upload size above the maximum":                {spec: `{storage: {maxStorage: 1Ti, maxUploadSize: 80001Mi}}`, says: uploadSize},
		"an upload size above the quota":                  {spec: `{storage: {maxStorage: 1Gi, maxUploadSize: 2Gi}}`, says: "maxUploadSize: Invalid value: must not be larger than maxStorage"},
		"an upload size above the default quota":          {spec: `{storage: {maxUploadSize: 11Gi}}`, says: "must not be larger than maxStorage"},
		"an owner without an address":                     {spec: `{owners: [ana]}`, says: email},
		"an owner without a domain":                       {spec: `{owners: [ana@]}`, says: email},
		"an owner with a display name":                    {spec: `{owners: ["Ana <ana@example.org>"]}`, says: email},
		"an owner with two dots":                          {spec: `{owners: [ana..b@example.org]}`, says: email},
		"an owner with a line break":                      {spec: `{owners: ["ana@example.org\n"]}`, says: email},
		"an owner in two cases":                           {spec: `{owners: [bo@example.org, Ana@example.org, ana@Example.ORG]}`, says: "must not contain two addresses that differ in case only; they are one owner"},
		"an owner in Unicode":                             {spec: `{owners: [ana@bücher.example]}`, says: email},
		"an owner with a local part that is not ASCII":    {spec: `{owners: [añá@example.org]}`, says: email},
		"the same owner twice":                            {spec: `{owners: [ana@example.org, ana@example.org]}`, says: "Duplicate value"},
		"an upper-case bucket":                            {spec: `{storage: {bucket: {name: Photos}}}`, says: bucket},
		"a bucket with two dots":                          {spec: `{storage: {bucket: {name: a..b}}}`, says: bucket},
		"a bucket that ends in a dash":                    {spec: `{storage: {bucket: {name: photos-}}}`, says: bucket},
		"a bucket like an IP address":                     {spec: `{storage: {bucket: {name: 192.168.0.1}}}`, says: reserved},
		"a bucket with S3's own prefix":                   {spec: `{storage: {bucket: {name: xn--photos}}}`, says: reserved},
		"a bucket too short":                              {spec: `{storage: {bucket: {name: ab}}}`, says: "should be at least 3 chars long"},
		"adoption of no bucket":                           {spec: `{storage: {bucket: {adopt: true}}}`, says: "adopt requires the name of an existing bucket"},
		"the Default App in the list":                     {spec: `{apps: [{name: default}]}`, says: "the Default App always exists"},
		"an app name that is no DNS label":                {spec: `{apps: [{name: Web}]}`, says: label},
		"an app name with a dot":                          {spec: `{apps: [{name: a.b}]}`, says: label},
		"the same app twice":                              {spec: `{apps: [{name: web}, {name: web}]}`, says: "Duplicate value"},
		"a key generation of zero":                        {spec: `{apiKeys: {generation: 0}}`, says: "should be greater than or equal to 1"},
		"an overlap above the maximum":                    {spec: `{apiKeys: {overlap: 721h}}`, says: overlap},
		"a negative overlap":                              {spec: `{apiKeys: {overlap: -1s}}`, says: overlap},
		"an overlap without a unit":                       {spec: `{apiKeys: {overlap: "24"}}`, says: overlap},
		"an overlap that overflows":                       {spec: `{apiKeys: {overlap: 999999h999999h}}`, says: overlap},
		"a rotation every minute":                         {spec: `{apiKeys: {rotateEvery: 1m}}`, says: rotation},
		"a rotation less than every year":                 {spec: `{apiKeys: {rotateEvery: 8785h}}`, says: rotation},
		"a rotation without a unit":                       {spec: `{apiKeys: {rotateEvery: "30"}}`, says: rotation},
		"a label of the operator":                         {spec: `{apiKeys: {secretTemplate: {labels: {mediastack.dev/app: x}}}}`, says: "must not set labels of mediastack.dev"},
		"the operator's managed-by":                       {spec: `{apiKeys: {secretTemplate: {labels: {app.kubernetes.io/managed-by: x}}}}`, says: "must not set labels of mediastack.dev or app.kubernetes.io/managed-by"},
		"a label name with a space":                       {spec: `{apiKeys: {secretTemplate: {labels: {"a b": x}}}}`, says: "must have names of labels, such as team or example.org/team"},
		"a label name that is too long":                   {spec: `{apiKeys: {secretTemplate: {labels: {` + strings.Repeat("a", 64) + `: x}}}}`, says: "must have names of labels"},
		"a label value with a space":                      {spec: `{apiKeys: {secretTemplate: {labels: {team: "a b"}}}}`, says: "should match"},
		"a label value that is too long":                  {spec: `{apiKeys: {secretTemplate: {labels: {team: ` + strings.Repeat("a", 64) + `}}}}`, says: "may not be more than 63"},
		"an annotation of the operator":                   {spec: `{apiKeys: {secretTemplate: {annotations: {mediastack.dev/template: "{}"}}}}`, says: "must not set annotations of mediastack.dev"},
		"an annotation name with a slash too many":        {spec: `{apiKeys: {secretTemplate: {annotations: {a/b/c: x}}}}`, says: "must have names of annotations"},
		"an annotation value that is too long":            {spec: `{apiKeys: {secretTemplate: {annotations: {a: ` + strings.Repeat("a", 4097) + `}}}}`, says: "may not be more than 4096"},
		"an entry of the operator":                        {spec: `{apiKeys: {secretTemplate: {keys: {proof: apiKey}}}}`, says: entries},
		"an entry of the service binding":                 {spec: `{apiKeys: {secretTemplate: {keys: {uri: baseURL}}}}`, says: entries},
		"a label prefix with a dash before a dot":         {spec: `{apiKeys: {secretTemplate: {labels: {"a.-b/team": x}}}}`, says: "must have names of labels"},
		"a label prefix that is too long":                 {spec: `{apiKeys: {secretTemplate: {labels: {` + strings.Repeat("a", 254) + `/team: x}}}}`, says: "must have names of labels"},
		"an annotation prefix with two dots":              {spec: `{apiKeys: {secretTemplate: {annotations: {"a..b/team": x}}}}`, says: "must have names of annotations"},
		"an entry name of a dot":                          {spec: `{apiKeys: {secretTemplate: {keys: {".": apiKey}}}}`, says: entries},
		"an entry name of two dots":                       {spec: `{apiKeys: {secretTemplate: {keys: {"..": apiKey}}}}`, says: entries},
		"an entry name that begins with two dots":         {spec: `{apiKeys: {secretTemplate: {keys: {"..foo": apiKey}}}}`, says: entries},
		"an entry name with a slash":                      {spec: `{apiKeys: {secretTemplate: {keys: {a/b: apiKey}}}}`, says: entries},
		"an entry from nowhere":                           {spec: `{apiKeys: {secretTemplate: {keys: {KEY: proof}}}}`, says: `supported values: "apiKey", "baseURL", "mcpURL", "accountID", "app"`},
		"a deletion before it was requested":              {spec: `{deleteAfter: -1h}`, says: deletion},
		"a deletion after more than a year":               {spec: `{deleteAfter: 8785h}`, says: deletion},
		"a deletion without a unit":                       {spec: `{deleteAfter: "24"}`, says: deletion},
		"a restore from a name that is too long":          {spec: `{restoreFrom: ` + strings.Repeat("a", 254) + `}`, says: "Too long: may not be more than 36"},
		"a restore from a name that is no UUID":           {spec: `{restoreFrom: photos}`, says: restoreFrom},
		"a restore from a shell command":                  {spec: `{restoreFrom: "x -p '{}'; touch /tmp/y #"}`, says: restoreFrom},
		"a restore from a UUID and a line break":          {spec: `{restoreFrom: "0193d3c1-0000-7000-8000-00000000000\n"}`, says: restoreFrom},
		"an unknown policy":                               {spec: `{deletionPolicy: Keep}`, says: `supported values: "Retain", "Delete"`},
		"an unknown field":                                {spec: `{storge: {}}`, says: `unknown field "spec.storge"`},
		"a name with a dot":                               {name: "a.b", spec: `{}`, says: "metadata.name must be a DNS label"},
		"a name longer than a DNS label":                  {name: strings.Repeat("a", 64), spec: `{}`, says: "metadata.name must be a DNS label"},
		"a display name that is too long":                 {spec: `{displayName: ` + strings.Repeat("a", 201) + `}`, says: "may not be more than 200"},
		"pages without a list":                            {spec: `{cors: {}}`, says: "Required value"},
		"pages of every origin":                           {spec: `{cors: {origins: ["*"]}}`, says: "must be an origin such as"},
		"an origin with a path":                           {spec: `{cors: {origins: ["https://app.example.org/"]}}`, says: "must be an origin such as"},
		"an origin in upper case":                         {spec: `{cors: {origins: ["https://App.example.org"]}}`, says: "must be an origin such as"},
		"an origin without a scheme":                      {spec: `{cors: {origins: [app.example.org]}}`, says: "must be an origin such as"},
		"an undo window below the minimum":                {spec: `{undo: {window: 59m}}`, says: "must be a duration from 1h to 720h, such as 24h"},
		"an undo window above the maximum":                {spec: `{undo: {window: 721h}}`, says: "must be a duration from 1h to 720h, such as 24h"},
		"an undo window that is no duration":              {spec: `{undo: {window: a day}}`, says: "must be a duration from 1h to 720h, such as 24h"},
		"undo without a window":                           {spec: `{undo: {for: Everyone}}`, says: "undo.window: Required value"},
		"undo for someone else":                           {spec: `{undo: {window: 24h, for: Users}}`, says: `supported values: "Agents", "Everyone"`},
		"a journal below the minimum":                     {spec: `{journal: {retention: 23h59m}}`, says: journal},
		"a journal above the maximum":                     {spec: `{journal: {retention: 9600h1s}}`, says: journal},
		"a journal of a part of a second":                 {spec: `{journal: {retention: 24h500ms}}`, says: journal},
		"a journal of a fraction of a second":             {spec: `{journal: {retention: 86400.5s}}`, says: journal},
		"a journal with other addresses":                  {spec: `{journal: {addresses: None}}`, says: `supported values: "Masked", "Full"`},
		"a journal that is no duration":                   {spec: `{journal: {retention: a week}}`, says: journal},
		"a journal with a negative time":                  {spec: `{journal: {retention: -168h}}`, says: journal},
		"a journal with a time that is too long":          {spec: `{journal: {retention: 000024h000000m000000s}}`, says: "Too long: may not be more than 20"},
		"a journal of something else":                     {spec: `{journal: {webhook: true}}`, says: `unknown field "spec.journal.webhook"`},
		"a location of another policy":                    {spec: `{metadata: {location: Blur}}`, says: `supported values: "Drop", "Keep"`},
		"metadata of something else":                      {spec: `{metadata: {exif: Keep}}`, says: `unknown field "spec.metadata.exif"`},
		"a toolset that does not exist":                   {spec: `{mcp: {toolsets: [everything]}}`, says: "supported values: "},
		"an origin twice":                                 {spec: `{cors: {origins: ["https://a.example.org", "https://a.example.org"]}}`, says: "Duplicate value"},
		"a tool policy without tools":                     {spec: `{mcp: {tools: []}}`, says: "should have at least 1 items"},
		"a read-only policy without a tool that reads":    {spec: `{mcp: {readOnly: true, tools: [delete_media, upload_media]}}`, says: "with readOnly none of these tools is left"},
		"a read-only policy without a toolset that reads": {spec: `{mcp: {readOnly: true, toolsets: [organize, slim]}}`, says: "with readOnly none of these toolsets has a tool left"},
		"a tool policy without toolsets":                  {spec: `{mcp: {toolsets: []}}`, says: "should have at least 1 items"},
		"a tool policy with an unknown toolset":           {spec: `{mcp: {toolsets: [all]}}`, says: `Unsupported value: "all"`},
		"a tool policy with an unknown tool":              {spec: `{mcp: {tools: [list_medium]}}`, says: `Unsupported value: "list_medium"`},
		"a tool policy with a tool twice":                 {spec: `{mcp: {tools: [get_media, get_media]}}`, says: "Duplicate value"},
		"a bulk without deletes in bulk":                  {spec: `{mcp: {approval: {delete: Always, bulk: {items: 5}}}}`, says: "bulk needs delete: Bulk"},
		"a bulk of no items":                              {spec: `{mcp: {approval: {delete: Bulk, bulk: {items: -1}}}}`, says: "should be greater than or equal to 1"},
		"a bulk in a day and more":                        {spec: `{mcp: {approval: {delete: Bulk, bulk: {per: 25h}}}}`, says: "must be a duration of whole seconds from 1m to 24h"},
		"an unknown rule":                                 {spec: `{mcp: {approval: {delete: Sometimes}}}`, says: "Unsupported value"},
		"bulk for what is published":                      {spec: `{mcp: {approval: {publish: Bulk}}}`, says: "Unsupported value"},
		"a ceiling of no deletes":                         {spec: `{mcp: {ceilings: {deletesPerHour: 0}}}`, says: "should be greater than or equal to 1"},
		"a ceiling of a part of a byte":                   {spec: `{mcp: {ceilings: {total: {uploadBytesPerDay: 1m}}}}`, says: "must be a whole number of bytes"},
		"the set of approvals":                            {spec: `{mcp: {toolsets: [core, approval]}}`, says: "Unsupported value"},
		// PostgreSQL cannot store a NUL: the object would be accepted here and fail in every reconcile.
		"a display name with a NUL": {spec: `{displayName: "a\u0000b"}`, says: "must not contain control characters"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.name == "" {
				c.name = "demo"
			}
			rejected(t, accounts, object(t, "MediaAccount", c.name, c.spec), c.says)
		})
	}
}

// rejected creates an object in a dry run and expects an error that contains says.
func rejected(t *testing.T, resource dynamic.ResourceInterface, o *unstructured.Unstructured, says string) {
	t.Helper()
	_, err := resource.Create(t.Context(), o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: "Strict"})
	if err == nil {
		t.Fatalf("%v is accepted", o.Object["spec"])
	}
	if !strings.Contains(err.Error(), says) {
		t.Errorf("the response is %q, want %q in it", err, says)
	}
}

func TestMediaAccount_ValidIsAccepted(t *testing.T) {
	t.Parallel()
	accounts := setup(t, "mediaaccounts")
	for i, spec := range []string{
		`{}`,
		`{storage: {maxStorage: 1Gi}}`, // less than the default upload size: the smaller counts
		`{storage: {maxStorage: 1.5Gi, maxUploadSize: 1536Mi}}`,
		`{storage: {maxStorage: 1048576, maxUploadSize: 1024}}`, `{storage: {maxStorage: 1Mi}}`,
		`{storage: {maxStorage: 4Ei, maxUploadSize: 80000Mi}}`,
		`{storage: {bucket: {name: photos.example.org, adopt: true}}}`,
		`{owners: [ana@example.org, "bo+media@sub.example.org"]}`,
		`{owners: ["o'brien@example.org", "!#$%&'*+-/=?^_` + "`" + `{|}~@example.org", ana@XN--bcher-kva.example]}`,
		`{apps: [{name: web}, {name: "2"}], apiKeys: {generation: 7, overlap: 1h30m}}`,
		`{apiKeys: {overlap: 0s}}`,
		`{apiKeys: {overlap: 720h}}`,
		`{apiKeys: {rotateEvery: 1h}}`,
		`{apiKeys: {rotateEvery: 8784h}}`,
		`{apiKeys: {secretTemplate: {labels: {team: "", example.org/team: a.b_c-1}, annotations: {reloader.stakater.com/match: "true"}, keys: {MEDIA_API_KEY: apiKey, media.url: baseURL}}}}`,
		`{deleteAfter: 0s, deletionPolicy: Delete, deletionProtection: true}`,
		`{deleteAfter: 8784h}`,
		`{restoreFrom: 0193d3c1-0000-7000-8000-000000000000}`,
		`{restoreFrom: ""}`,
		`{mcp: {}}`,
		`{cors: {origins: []}}`,
		`{undo: {window: 1h}}`,
		`{undo: {window: 720h, for: Everyone}}`,
		`{journal: {}}`,
		`{journal: {retention: 24h}}`,
		`{journal: {retention: 9600h0m0s}}`,
		`{mcp: {toolsets: [core, find, organize, undo, capabilities, fetch, uploads]}}`,
		`{cors: {origins: ["https://app.example.org", "https://*.example.org", "http://localhost:*", "https://app.example.org:8443", "http://127.0.0.1:3000"]}}`,
		`{mcp: {readOnly: true, tools: [list_media, delete_media]}}`,
		`{mcp: {readOnly: true, toolsets: [organize, find]}}`,
		`{mcp: {readOnly: false, tools: [delete_media], toolsets: [organize]}}`,
		`{mcp: {readOnly: true}}`,
		`{mcp: {approval: {}, ceilings: {}}}`,
		`{mcp: {approval: {delete: Bulk, publish: Always, settings: Never, bulk: {items: 100, per: 30m}}, ceilings: {uploadBytesPerDay: 10Gi, deletesPerHour: 100, fetchesPerDay: 50, total: {deletesPerHour: 500}}}}`,
		`{mcp: {toolsets: [core, organize, find, undo, capabilities]}}`,
	} {
		if _, err := accounts.Create(t.Context(), object(t, "MediaAccount", fmt.Sprintf("ok-%d", i), spec), metav1.CreateOptions{FieldValidation: "Strict"}); err != nil {
			t.Errorf("%s: %v", spec, err)
		}
	}
}

// The description once named the part size of an earlier release.
func TestMaxUploadSize_DescriptionAgreesWithTheRuntime(t *testing.T) {
	t.Parallel()
	schema := definition(t).Object["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
	description, _, err := unstructured.NestedString(schema, "schema", "openAPIV3Schema", "properties", "spec", "properties", "storage", "properties", "maxUploadSize", "description")
	must(t, err)
	if parts := fmt.Sprintf("10,000 parts of %dMi", upload.MaxFile/10_000>>20); !strings.Contains(strings.ReplaceAll(description, "\n", " "), parts) {
		t.Errorf("the description does not contain %q: %s", parts, description)
	}
}

// The API server bounds what a rule may cost, by an estimate and when it runs.
func TestOwners_MaximumNumberAndLengthIsAccepted(t *testing.T) {
	t.Parallel()
	accounts := setup(t, "mediaaccounts")
	owners := make([]string, 100)
	for i := range owners {
		owners[i] = strings.Repeat("a", 239) + fmt.Sprintf("%03d@example.org", i)
	}
	made := object(t, "MediaAccount", "demo", `{owners: [`+strings.Join(owners, ", ")+`]}`)
	if _, err := accounts.Create(t.Context(), made, metav1.CreateOptions{FieldValidation: "Strict"}); err != nil {
		t.Fatal(err)
	}
}

// An owner that the API server accepts must be able to log in, and the other way round.
// International domains are converted at the login only.
func TestOwners_FollowTheRuleOfLogins(t *testing.T) {
	t.Parallel()
	accounts := setup(t, "mediaaccounts")
	for i, owner := range []string{
		"ana@example.org", "Ana@Example.ORG", "o'brien@example.org", "a`b@example.org", "a/b=c?d^e@example.org", "ana@xn--bcher-kva.example", "ana@1.2.3.4", "ana@a-b.c",
		"ana", "ana@", "ana@localhost", "a..b@example.org", ".a@example.org", "a.@example.org", "a b@example.org", "ana@[127.0.0.1]", "ana@exa_mple.org", "ana@-a.org", "ana@a-.org",
		`"ana"@example.org`, "ana(x)@example.org", "ana,bo@example.org", "ana;bo@example.org", "a:b@example.org", "a\\b@example.org", "änne@example.org", "\u212aim@example.org", "ana@example.org.", "ana@@example.org",
	} {
		o := object(t, "MediaAccount", fmt.Sprintf("owner-%d", i), `{}`)
		o.Object["spec"] = map[string]any{"owners": []any{owner}}
		_, err := accounts.Create(t.Context(), o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if _, ok := account.ParseEmail(owner); ok != (err == nil) {
			t.Errorf("%q: the login accepts it: %t; the API server answers %v", owner, ok, err)
		}
	}
}

// An account that listed two spellings before they were rejected must still accept every
// other change, including the removal of its finalizer.
func TestOwners_ExistingObjectWithTwoCasesStaysValid(t *testing.T) {
	t.Parallel()
	current := definition(t)
	before := current.DeepCopy()
	version := before.Object["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
	unstructured.RemoveNestedField(version, "schema", "openAPIV3Schema", "properties", "spec", "properties", "owners", "x-kubernetes-validations")
	kubetest.Apply(t, before)
	client, err := dynamic.NewForConfig(kubetest.Access(t))
	must(t, err)
	accounts := client.Resource(schema.GroupVersionResource{Group: "before.example.org", Version: "v1alpha1", Resource: "mediaaccounts"}).Namespace("default")
	build := func(name, spec string) *unstructured.Unstructured {
		o := object(t, "MediaAccount", name, spec)
		o.SetAPIVersion("before.example.org/v1alpha1")
		return o
	}
	existing := build("existing", `{owners: [ana@example.org, Ana@example.org]}`)
	existing.SetFinalizers([]string{"example.org/hold"})
	if existing, err = accounts.Create(t.Context(), existing, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kubetest.Apply(t, current)
	wait.Until(t, "the rule has an effect", func() bool {
		_, err := accounts.Create(t.Context(), build("new", `{owners: [ana@example.org, Ana@example.org]}`), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), "differ in case only")
	})

	existing.Object["spec"].(map[string]any)["displayName"] = "changed"
	if existing, err = accounts.Update(t.Context(), existing, metav1.UpdateOptions{}); err != nil {
		t.Errorf("another field can't be changed: %v", err)
	}
	existing.SetFinalizers(nil)
	if existing, err = accounts.Update(t.Context(), existing, metav1.UpdateOptions{}); err != nil {
		t.Errorf("the finalizer can't be removed: %v", err)
	}
	more := existing.DeepCopy()
	more.Object["spec"].(map[string]any)["owners"] = []any{"ana@example.org", "Ana@example.org", "bo@example.org"}
	if _, err := accounts.Update(t.Context(), more, metav1.UpdateOptions{}); err == nil || !strings.Contains(err.Error(), "differ in case only") {
		t.Errorf("owners that are changed keep both spellings: %v", err)
	}
	existing.Object["spec"].(map[string]any)["owners"] = []any{"Ana@example.org"}
	if _, err := accounts.Update(t.Context(), existing, metav1.UpdateOptions{}); err != nil {
		t.Errorf("one spelling can't be removed: %v", err)
	}
}

// definition returns the definition of MediaAccount in a group of the test's own, so that
// a test may change it beside others.
func definition(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	const group = "before.example.org"
	crd := kubetest.Manifests(t, "crd/bases/mediastack.dev_mediaaccounts.yaml")[0]
	crd.SetName("mediaaccounts." + group)
	crd.Object["spec"].(map[string]any)["group"] = group
	return crd
}

func TestMediaAccount_DefaultsAreStored(t *testing.T) {
	t.Parallel()
	accounts := setup(t, "mediaaccounts")
	made, err := accounts.Create(t.Context(), object(t, "MediaAccount", "demo", `{journal: {}, metadata: {}}`), metav1.CreateOptions{})
	must(t, err)
	for path, want := range map[string]string{
		"spec.storage.maxStorage":   "10Gi",
		"spec.deletionPolicy":       "Retain",
		"spec.apiKeys.generation":   "1",
		"spec.apiKeys.overlap":      "24h",
		"spec.journal.retention":    "168h",
		"spec.metadata.location":    "Drop",
		"status.observedGeneration": "-1",
	} {
		got, _, err := unstructured.NestedFieldNoCopy(made.Object, strings.Split(path, ".")...)
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s is %v, want %s (%v)", path, got, want, err)
		}
	}
}

func TestUpdate_ImmutableFieldsAreRejected(t *testing.T) {
	t.Parallel()
	const fixed = "the bucket's name cannot be set, changed or removed"
	cases := map[string]struct{ kind, resource, before, after, says string }{
		"a bucket's name":           {before: `{storage: {bucket: {name: first}}}`, after: `{storage: {bucket: {name: second}}}`, says: fixed},
		"a removed bucket":          {before: `{storage: {bucket: {name: first}}}`, after: `{storage: {}}`, says: fixed},
		"removed storage":           {before: `{storage: {bucket: {name: first}}}`, after: `{}`, says: fixed},
		"an added bucket":           {before: `{}`, after: `{storage: {bucket: {name: first}}}`, says: fixed},
		"a name added beside adopt": {before: `{storage: {bucket: {adopt: false}}}`, after: `{storage: {bucket: {name: first}}}`, says: fixed},
		"an account reference": {
			kind: "MediaSettings", resource: "mediasettings", before: `{accountRef: {name: a}}`, after: `{accountRef: {name: b}}`,
			says: "cannot be changed; create another MediaSettings for the other account",
		},
	}
	accounts, settings := setup(t, "mediaaccounts"), setup(t, "mediasettings")
	i := 0
	for name, c := range cases {
		i++
		resource, kind := accounts, "MediaAccount"
		if c.kind != "" {
			resource, kind = settings, c.kind
		}
		id := fmt.Sprintf("case-%d", i)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made, err := resource.Create(t.Context(), object(t, kind, id, c.before), metav1.CreateOptions{})
			must(t, err)
			made.Object["spec"] = object(t, kind, id, c.after).Object["spec"]
			if _, err = resource.Update(t.Context(), made, metav1.UpdateOptions{}); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the response is %v, want %q in it", err, c.says)
			}
		})
	}
}

func TestUpdate_MutableFieldsAreAccepted(t *testing.T) {
	t.Parallel()
	accounts := setup(t, "mediaaccounts")
	made, err := accounts.Create(t.Context(), object(t, "MediaAccount", "demo", `{storage: {bucket: {name: photos}}}`), metav1.CreateOptions{})
	must(t, err)
	for _, spec := range []string{
		`{storage: {bucket: {name: photos, adopt: true}, maxStorage: 20Gi}}`,
		`{storage: {bucket: {name: photos}, maxStorage: 1Gi}, apiKeys: {generation: 2}}`,
		`{storage: {bucket: {name: photos}}, apiKeys: {generation: 9, overlap: 1h}, suspended: true}`,
		`{storage: {bucket: {name: photos}}, apiKeys: {generation: 3}, suspended: true}`, // a git revert
	} {
		made.Object["spec"] = object(t, "MediaAccount", "demo", spec).Object["spec"]
		if made, err = accounts.Update(t.Context(), made, metav1.UpdateOptions{}); err != nil {
			t.Fatalf("%s: %v", spec, err)
		}
	}
	list := func(ctx context.Context, selector string) int {
		found, err := accounts.List(ctx, metav1.ListOptions{FieldSelector: selector})
		must(t, err)
		return len(found.Items)
	}
	if list(t.Context(), "spec.suspended=true") != 1 || list(t.Context(), "spec.suspended=false") != 0 {
		t.Error("accounts can't be selected by spec.suspended")
	}
}

func TestMediaSettings_InvalidIsRejected(t *testing.T) {
	t.Parallel()
	settings := setup(t, "mediasettings")
	cases := map[string]struct{ spec, says string }{
		"no account":                    {`{}`, "spec.accountRef: Required value"},
		"an account without name":       {`{accountRef: {}}`, "spec.accountRef.name: Required value"},
		"a quality over 100":            {`{accountRef: {name: demo}, webpOutputQuality: 101}`, "should be less than or equal to 100"},
		"a negative quality":            {`{accountRef: {name: demo}, webpOutputQuality: -1}`, "should be greater than or equal to 0"},
		"a thumbnail of width zero":     {`{accountRef: {name: demo}, thumbnailWidth: 0}`, "should be greater than or equal to 1"},
		"a thumbnail above the maximum": {`{accountRef: {name: demo}, thumbnailHeight: 4097}`, "should be less than or equal to 4096"},
		"a string for a boolean":        {`{accountRef: {name: demo}, useWebP: "yes"}`, "must be of type boolean"},
		"a fractional quality":          {`{accountRef: {name: demo}, webpOutputQuality: 80.5}`, "must be of type integer"},
		"an unknown field":              {`{accountRef: {name: demo}, useAVIF: true}`, `unknown field "spec.useAVIF"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rejected(t, settings, object(t, "MediaSettings", "site", c.spec), c.says)
		})
	}
	if _, err := settings.Create(t.Context(), object(t, "MediaSettings", "site",
		`{accountRef: {name: demo}, useWebP: false, webpOutputQuality: 0, thumbnailWidth: 1, thumbnailHeight: 4096}`), metav1.CreateOptions{}); err != nil {
		t.Errorf("settings at their bounds are rejected: %v", err)
	}
	found, err := settings.List(t.Context(), metav1.ListOptions{FieldSelector: "spec.accountRef.name=demo"})
	if err != nil || len(found.Items) != 1 {
		t.Errorf("settings can't be selected by their account: %v", err)
	}
}

// retained returns a RetainedMediaAccount for an account id.
func retained(t *testing.T, id, spec string) *unstructured.Unstructured {
	t.Helper()
	return object(t, "RetainedMediaAccount", id, spec)
}

const retainedSpec = `accountID: 0193d3c1-0000-7000-8000-00000000000%d
installationID: 0193d3c1-1111-4000-8000-000000000000
accountNamespace: team-a
namespaceUID: 11111111-2222-3333-4444-555555555555
accountName: demo
bucket: media-team-a-demo
closedAt: "2026-01-02T03:04:05Z"
`

func TestRetainedMediaAccount_IdentityIsImmutable(t *testing.T) {
	t.Parallel()
	client, err := dynamic.NewForConfig(kubetest.Access(t))
	must(t, err)
	accounts := client.Resource(schema.GroupVersionResource{Group: "mediastack.dev", Version: "v1alpha1", Resource: "retainedmediaaccounts"})
	made, err := accounts.Create(t.Context(), retained(t, "0193d3c1-0000-7000-8000-000000000001", fmt.Sprintf(retainedSpec, 1)), metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		_ = accounts.Delete(context.WithoutCancel(t.Context()), made.GetName(), metav1.DeleteOptions{})
	})
	for field, value := range map[string]string{
		"accountID": "0193d3c1-0000-7000-8000-000000000009", "installationID": "0193d3c1-1111-4000-8000-000000000009", "accountNamespace": "team-b",
		"namespaceUID": "other", "accountName": "other", "bucket": "other-bucket", "closedAt": "2027-01-02T03:04:05Z",
	} {
		changed := made.DeepCopy()
		changed.Object["spec"].(map[string]any)[field] = value
		if _, err := accounts.Update(t.Context(), changed, metav1.UpdateOptions{}); err == nil || !strings.Contains(err.Error(), field) || !strings.Contains(err.Error(), "cannot be changed") {
			t.Errorf("%s: %v", field, err)
		}
	}
	for field, value := range map[string]any{
		"claimRef": map[string]any{"namespace": "team-b", "name": "demo"}, "reclaim": "Purge", "reserveName": false,
	} {
		must(t, unstructured.SetNestedField(made.Object, value, "spec", field))
		if made, err = accounts.Update(t.Context(), made, metav1.UpdateOptions{}); err != nil {
			t.Fatalf("%s cannot be changed: %v", field, err)
		}
	}
}

func TestRetainedMediaAccount_InvalidIsRejected(t *testing.T) {
	t.Parallel()
	client, err := dynamic.NewForConfig(kubetest.Access(t))
	must(t, err)
	accounts := client.Resource(schema.GroupVersionResource{Group: "mediastack.dev", Version: "v1alpha1", Resource: "retainedmediaaccounts"})
	valid := fmt.Sprintf(retainedSpec, 2)
	for name, c := range map[string]struct{ spec, says string }{
		"no account":              {`reclaim: Retain`, "spec.accountID: Required value"},
		"an id that is too short": {strings.Replace(valid, "accountID: 0193d3c1-", "accountID: ", 1), "spec.accountID in body should be at least 36 chars long"},
		"an id that is no UUID":   {strings.Replace(valid, "accountID: 0193d3c1-", "accountID: ;touch x-", 1), "must be a UUID in lower case"},
		"a name of another id":    {fmt.Sprintf(retainedSpec, 3), "metadata.name must be spec.accountID"},
		"an unknown reclaim":      {valid + "reclaim: Delete", `supported values: "Retain", "Purge"`},
		"a claim of nobody":       {valid + "claimRef: {}", "spec.claimRef.namespace: Required value"},
		"an unknown field":        {valid + "owner: ana", `unknown field "spec.owner"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rejected(t, accounts, retained(t, "0193d3c1-0000-7000-8000-000000000002", c.spec), c.says)
		})
	}
}
