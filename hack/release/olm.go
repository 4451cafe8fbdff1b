package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/api/pkg/validation"
	validator "github.com/operator-framework/api/pkg/validation/interfaces"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

const (
	packageName = "mediastack"
	channel     = "stable"
	candidates  = "candidate" // the channel of pre-releases
	// besideFile has the objects that a bundle cannot have.
	besideFile = "beside.yaml"
)

// olmCommand writes a bundle.
type olmCommand struct {
	Version     string   `required:"" help:"Version of the release."`
	Images      string   `required:"" type:"existingfile" help:"The list of the images, with their digests."`
	Install     string   `required:"" type:"existingfile" help:"All objects of an installation (install.yaml)."`
	Samples     string   `default:"config/samples" type:"existingdir" help:"Folder of sample objects."`
	Icon        string   `default:"docs/icon.svg" type:"existingfile" help:"Icon, as SVG."`
	Created     string   `required:"" help:"Time of the commit, in RFC 3339."`
	Arch        []string `required:"" help:"Architectures of the images."`
	Changelog   string   `default:"CHANGELOG.md" type:"existingfile" help:"The changelog, whose sections are the releases before."`
	Definitions string   `default:"config/crd/bases" type:"existingdir" help:"Folder of the custom resource definitions."`
	Out         string   `arg:"" type:"existingdir" help:"Folder to write to."`
}

// Run writes the bundle, and fails unless the library of the Operator Framework accepts it.
func (c *olmCommand) Run() error {
	text, err := os.ReadFile(c.Install)
	if err != nil {
		return err
	}
	all, err := objects(text)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Install, err)
	}
	list, err := os.ReadFile(c.Images)
	if err != nil {
		return err
	}
	byName, registry, err := digests(string(list))
	if err != nil {
		return err
	}
	changelog, err := os.ReadFile(c.Changelog)
	if err != nil {
		return err
	}
	upgrade, err := upgradeTo(string(changelog), c.Version)
	if err != nil {
		return err
	}
	made := &olmBundle{version: c.Version, upgrade: upgrade, references: map[string]string{}, architectures: c.Arch, folder: filepath.Join(c.Out, "manifests")}
	for _, name := range images {
		made.references[name] = fmt.Sprintf("%s/mediastack/%s@%s", registry, name, byName[name])
	}
	if err := made.add(all); err != nil {
		return err
	}
	definitions, err := readDefinitions(c.Definitions)
	if err != nil {
		return err
	}
	for _, d := range definitions {
		made.definitions = append(made.definitions, v1alpha1.CRDDescription{Name: d.Name, Version: d.Version, Kind: d.Kind, DisplayName: d.DisplayName, Description: d.Description})
	}
	icon, err := os.ReadFile(c.Icon)
	if err != nil {
		return err
	}
	samples, err := readSamples(c.Samples)
	if err != nil {
		return err
	}
	examples, err := json.Marshal(samples)
	if err != nil {
		return err
	}
	if err := made.write(c.Out, made.clusterServiceVersion(string(examples), base64.StdEncoding.EncodeToString(icon), c.Created)); err != nil {
		return err
	}
	return validate(c.Out)
}

// objects returns the objects of a YAML file.
func objects(text []byte) ([]*unstructured.Unstructured, error) {
	var found []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			found = append(found, object)
		}
	}
}

// olmBundle is a bundle in the making.
type olmBundle struct {
	version       string
	upgrade       upgrade
	folder        string
	references    map[string]string // of the images, by name
	architectures []string

	deployments []v1alpha1.StrategyDeploymentSpec
	cluster     []v1alpha1.StrategyDeploymentPermissions
	namespaced  []v1alpha1.StrategyDeploymentPermissions
	definitions []v1alpha1.CRDDescription
	beside      []*unstructured.Unstructured
	files       map[string]*unstructured.Unstructured
}

// add sorts objects into what a ClusterServiceVersion has, what is a file beside it, and what a bundle cannot have.
func (b *olmBundle) add(all []*unstructured.Unstructured) error {
	b.files = map[string]*unstructured.Unstructured{}
	roles := map[string][]rbacv1.PolicyRule{}
	var bindings, accounts []*unstructured.Unstructured
	for _, object := range all {
		object.SetNamespace("") // that of the subscription
		switch object.GetKind() {
		case "Namespace":
		case "ServiceAccount":
			accounts = append(accounts, object)
		case "Deployment":
			var d appsv1.Deployment
			if err := k8sruntime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &d); err != nil {
				return err
			}
			b.pin(&d.Spec.Template.Spec)
			b.deployments = append(b.deployments, v1alpha1.StrategyDeploymentSpec{Name: d.Name, Spec: d.Spec, Label: d.Labels})
		case "Role", "ClusterRole":
			if strings.HasSuffix(object.GetName(), "-view") || strings.HasSuffix(object.GetName(), "-edit") || strings.HasSuffix(object.GetName(), "-admin") {
				b.file(object) // for users
				continue
			}
			var role rbacv1.ClusterRole
			if err := k8sruntime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
				return err
			}
			roles[object.GetKind()+"/"+object.GetName()] = role.Rules
		case "RoleBinding", "ClusterRoleBinding":
			bindings = append(bindings, object)
		case "CustomResourceDefinition", "ConfigMap", "Service", "PodDisruptionBudget", "PriorityClass", "NetworkPolicy":
			b.file(object)
		default:
			b.beside = append(b.beside, object)
		}
	}
	if err := b.bind(bindings, roles); err != nil {
		return err
	}
	// The Operator Lifecycle Manager makes the service accounts that have permissions: one that has none is named with no rule.
	for _, account := range accounts {
		if !slices.ContainsFunc(append(slices.Clone(b.cluster), b.namespaced...), func(p v1alpha1.StrategyDeploymentPermissions) bool {
			return p.ServiceAccountName == account.GetName()
		}) {
			b.namespaced = append(b.namespaced, v1alpha1.StrategyDeploymentPermissions{ServiceAccountName: account.GetName(), Rules: []rbacv1.PolicyRule{}})
		}
	}
	return nil
}

func (b *olmBundle) file(object *unstructured.Unstructured) {
	b.files[strings.ToLower(object.GetKind())+"-"+object.GetName()+".yaml"] = object
}

// bind adds the rules of roles to the service accounts that have them.
func (b *olmBundle) bind(bindings []*unstructured.Unstructured, roles map[string][]rbacv1.PolicyRule) error {
	used := map[string]bool{}
	for _, object := range bindings {
		var binding rbacv1.ClusterRoleBinding
		if err := k8sruntime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &binding); err != nil {
			return err
		}
		role := binding.RoleRef.Kind + "/" + binding.RoleRef.Name
		rules, ok := roles[role]
		if !ok || len(binding.Subjects) != 1 {
			return fmt.Errorf("%s %s binds %s to %d subjects", object.GetKind(), object.GetName(), role, len(binding.Subjects))
		}
		used[role] = true
		permissions := v1alpha1.StrategyDeploymentPermissions{ServiceAccountName: binding.Subjects[0].Name, Rules: rules}
		if object.GetKind() == "ClusterRoleBinding" {
			b.cluster = append(b.cluster, permissions)
		} else {
			b.namespaced = append(b.namespaced, permissions)
		}
	}
	for role := range roles {
		if !used[role] {
			return fmt.Errorf("nothing binds %s", role)
		}
	}
	return nil
}

// pin names the images by their digests.
func (b *olmBundle) pin(pod *corev1.PodSpec) {
	for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range containers {
			for name, reference := range b.references {
				if strings.Contains(containers[i].Image, "mediastack/"+name+":") {
					containers[i].Image = reference
				}
			}
		}
	}
}

// channels returns the channels of the version; the first one is the default.
func (b *olmBundle) channels() string {
	if strings.Contains(b.version, "-") {
		return candidates
	}
	return channel
}

func (b *olmBundle) write(out string, csv *v1alpha1.ClusterServiceVersion) error {
	if err := os.MkdirAll(b.folder, 0o755); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(out, "metadata"), 0o755); err != nil {
		return err
	}
	for name, object := range b.files {
		if err := writeYAML(filepath.Join(b.folder, name), object.Object); err != nil {
			return err
		}
	}
	content, err := k8sruntime.DefaultUnstructuredConverter.ToUnstructured(csv)
	if err != nil {
		return err
	}
	delete(content, "status")
	if err := writeYAML(filepath.Join(b.folder, packageName+".clusterserviceversion.yaml"), content); err != nil {
		return err
	}
	var beside bytes.Buffer
	beside.WriteString("# What a bundle of the Operator Lifecycle Manager cannot have: kubectl apply -n NAMESPACE -f beside.yaml\n")
	for _, object := range b.beside {
		text, err := sigsyaml.Marshal(b.pinned(object))
		if err != nil {
			return err
		}
		beside.WriteString("---\n")
		beside.Write(text)
	}
	if err := os.WriteFile(filepath.Join(out, besideFile), beside.Bytes(), 0o644); err != nil {
		return err
	}
	labels := map[string]string{
		"operators.operatorframework.io.bundle.mediatype.v1":       "registry+v1",
		"operators.operatorframework.io.bundle.manifests.v1":       "manifests/",
		"operators.operatorframework.io.bundle.metadata.v1":        "metadata/",
		"operators.operatorframework.io.bundle.package.v1":         packageName,
		"operators.operatorframework.io.bundle.channels.v1":        b.channels(),
		"operators.operatorframework.io.bundle.channel.default.v1": b.channels(),
	}
	if err := writeYAML(filepath.Join(out, "metadata", "annotations.yaml"), map[string]any{"annotations": labels}); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "bundle.Dockerfile"), []byte(dockerfile(labels)), 0o644)
}

// pinned returns an object with its images named by their digests.
func (b *olmBundle) pinned(object *unstructured.Unstructured) map[string]any {
	text, err := json.Marshal(object.Object)
	if err != nil {
		return object.Object
	}
	for name, reference := range b.references {
		image := regexp.MustCompile(`"[^"]*mediastack/` + name + `:` + regexp.QuoteMeta(b.version) + `"`)
		text = image.ReplaceAllLiteral(text, []byte(`"`+reference+`"`))
	}
	var pinned map[string]any
	if err := json.Unmarshal(text, &pinned); err != nil {
		return object.Object
	}
	return pinned
}

func (b *olmBundle) clusterServiceVersion(examples, icon, created string) *v1alpha1.ClusterServiceVersion {
	csv := &v1alpha1.ClusterServiceVersion{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.ClusterServiceVersionAPIVersion, Kind: v1alpha1.ClusterServiceVersionKind},
		ObjectMeta: metav1.ObjectMeta{
			Name: packageName + "." + b.version,
			Annotations: map[string]string{
				"alm-examples": examples, "capabilities": "Deep Insights", "categories": "Storage",
				"containerImage": b.references["operator"], "createdAt": created, "repository": "https://mediastack.dev", "support": "mediastack",
				"description": description,
				"operatorframework.io/suggested-namespace": "mediastack-system",
			},
			Labels: map[string]string{"operatorframework.io/os.linux": "supported"},
		},
	}
	if b.upgrade.replaces != "" {
		csv.Spec.Replaces = packageName + "." + b.upgrade.replaces
	}
	if b.upgrade.skipRange != "" {
		csv.Annotations["olm.skipRange"] = b.upgrade.skipRange
	}
	for _, architecture := range b.architectures {
		csv.Labels["operatorframework.io/arch."+architecture] = "supported"
	}
	_ = csv.Spec.Version.UnmarshalJSON([]byte(`"` + strings.TrimPrefix(b.version, "v") + `"`))
	csv.Spec.DisplayName, csv.Spec.Description, csv.Spec.Maturity, csv.Spec.MinKubeVersion = packageName, longDescription, "stable", "1.30.0"
	if strings.Contains(b.version, "-") {
		csv.Spec.Maturity = "alpha"
	}
	csv.Spec.Keywords = []string{"media", "storage", "s3", "mcp", "tus"}
	csv.Spec.Provider = v1alpha1.AppLink{Name: packageName, URL: "https://mediastack.dev"}
	csv.Spec.Maintainers = []v1alpha1.Maintainer{{Name: packageName, Email: "maintainers@mediastack.dev"}}
	csv.Spec.Links = []v1alpha1.AppLink{{Name: "Install", URL: "https://mediastack.dev/docs/guides/install"}}
	csv.Spec.Icon = []v1alpha1.Icon{{Data: icon, MediaType: "image/svg+xml"}}
	csv.Spec.InstallModes = []v1alpha1.InstallMode{
		{Type: v1alpha1.InstallModeTypeOwnNamespace}, {Type: v1alpha1.InstallModeTypeSingleNamespace},
		{Type: v1alpha1.InstallModeTypeMultiNamespace}, {Type: v1alpha1.InstallModeTypeAllNamespaces, Supported: true},
	}
	csv.Spec.InstallStrategy = v1alpha1.NamedInstallStrategy{StrategyName: v1alpha1.InstallStrategyNameDeployment, StrategySpec: v1alpha1.StrategyDetailsDeployment{
		DeploymentSpecs: b.deployments, Permissions: b.namespaced, ClusterPermissions: b.cluster}}
	csv.Spec.CustomResourceDefinitions.Owned = b.definitions
	for _, name := range images {
		csv.Spec.RelatedImages = append(csv.Spec.RelatedImages, v1alpha1.RelatedImage{Name: name, Image: b.references[name]})
	}
	return csv
}

const (
	description     = "A media storage service for the tenants of a cluster"
	longDescription = `mediastack stores media files of the tenants of a cluster: images, videos, documents. A MediaAccount gives a tenant a bucket, API keys in a Secret, and endpoints to upload, seal, list, serve and delete media, by REST, TUS and MCP.

Before the installation, create the Secret mediastack-runtime with the access to PostgreSQL and to an S3 store. After it, apply beside.yaml of the release: a bundle cannot have the admission policies and the CronJob of the purge.`
)

func dockerfile(labels map[string]string) string {
	var text strings.Builder
	text.WriteString("FROM scratch\n")
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(&text, "LABEL %s=%s\n", name, labels[name])
	}
	text.WriteString("COPY manifests /manifests/\nCOPY metadata /metadata/\n")
	return text.String()
}

// validators are all of the library but MultipleArchitecturesValidator, which pulls the images with docker: they are in no
// registry yet.
var validators = validator.Validators{
	validation.PackageManifestValidator, validation.ClusterServiceVersionValidator, validation.CustomResourceDefinitionValidator, validation.BundleValidator,
	validation.OperatorHubV2Validator, validation.StandardCategoriesValidator, validation.StandardCapabilitiesValidator, validation.ObjectValidator,
	validation.OperatorGroupValidator, validation.CommunityOperatorValidator, validation.AlphaDeprecatedAPIsValidator, validation.GoodPracticesValidator,
}

// validate returns what the library of the Operator Framework says against a bundle.
func validate(folder string) error {
	bundle, err := manifests.GetBundleFromDir(folder)
	if err != nil {
		return err
	}
	var wrong []string
	for _, result := range validators.Validate(bundle, bundle.CSV) {
		for _, found := range result.Errors {
			wrong = append(wrong, found.Error())
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("the bundle is rejected: %s", strings.Join(wrong, "; "))
	}
	return nil
}
