package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/hack/kubeapply"
	"mediastack.dev/hack/setup"
	"mediastack.dev/runtime/account"
)

var (
	//go:embed account.yaml
	accountManifest []byte
	// settingsManifest declares the presets. The page shows it.
	//go:embed settings.yaml
	settingsManifest []byte
)

var accountKey = client.ObjectKey{Namespace: "pictures", Name: "pictures"}

const (
	readyTimeout = 2 * time.Minute
	pollEvery    = 100 * time.Millisecond
)

// stack is a dev stack with an account that has the presets.
type stack struct {
	program, dir string
	apiKey       string

	BaseURL    string `json:"baseURL"`
	Kubeconfig string `json:"kubeconfig"`
}

// startStack starts a dev stack with data of its own.
func startStack(ctx context.Context) (*stack, error) {
	program, err := setup.FindBinary("mediastack-dev")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "presetpictures-")
	if err != nil {
		return nil, err
	}
	s := &stack{program: program, dir: filepath.Join(dir, "data")}
	cmd := exec.CommandContext(ctx, program, "run", "--detach", "--data-dir", s.dir)
	cmd.Env = append(os.Environ(), "SERVICE_RATE_LIMIT_KEY=0", "SERVICE_RATE_LIMIT_IP=0", "SERVICE_RATE_LIMIT_PICTURES=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the dev stack: %w: %s", err, out), s.stop())
	}
	text, err := os.ReadFile(filepath.Join(s.dir, "stack.json"))
	if err == nil {
		err = json.Unmarshal(text, s)
	}
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// stop ends the stack and removes its data. It runs to its end also when the program was interrupted.
func (s *stack) stop() error {
	var failed error
	for _, command := range []string{"stop", "clean"} {
		if out, err := exec.Command(s.program, command, "--data-dir", s.dir).CombinedOutput(); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s the dev stack: %w: %s", command, err, out))
		}
	}
	return errors.Join(failed, os.RemoveAll(filepath.Dir(s.dir)))
}

// declare makes the account and its presets, and waits until both are in effect.
func (s *stack) declare(ctx context.Context) error {
	objects, err := kubeapply.Parse(bytes.NewReader(append(append(accountManifest[:len(accountManifest):len(accountManifest)], "---\n"...), settingsManifest...)))
	if err != nil {
		return fmt.Errorf("read the manifests: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		return err
	}
	if err := kubeapply.Apply(ctx, config, "presetpictures", objects...); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return err
	}
	kube, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, pollEvery, readyTimeout, true, func(ctx context.Context) (bool, error) {
		var owner v1alpha1.MediaAccount
		var settings v1alpha1.MediaSettings
		if err := errors.Join(kube.Get(ctx, accountKey, &owner), kube.Get(ctx, accountKey, &settings)); err != nil {
			return false, err
		}
		return meta.IsStatusConditionTrue(owner.Status.Conditions, v1alpha1.ConditionReady) &&
			meta.IsStatusConditionTrue(settings.Status.Conditions, v1alpha1.ConditionReady), nil
	})
	if err != nil {
		return fmt.Errorf("wait until the account and its presets are ready: %w", err)
	}
	var secret corev1.Secret
	if err := kube.Get(ctx, client.ObjectKey{Namespace: accountKey.Namespace, Name: v1alpha1.SecretName(accountKey.Name, account.DefaultApp)}, &secret); err != nil {
		return err
	}
	s.apiKey = string(secret.Data[v1alpha1.SecretAPIKey])
	return nil
}
