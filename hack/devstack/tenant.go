package main

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"mediastack.dev/api/v1alpha1"
	"mediastack.dev/runtime/account"
)

var sampleAccount = client.ObjectKey{Namespace: sampleNamespace, Name: sampleName}

func newKubeClient(config *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme})
}

// restoreSample lets the sample account take over its media after its namespace was deleted. In
// a real cluster an admin decides that: the namespace may belong to another team by then.
func restoreSample(ctx context.Context, kube client.Client) error {
	var kept v1alpha1.RetainedMediaAccountList
	if err := kube.List(ctx, &kept); err != nil {
		return fmt.Errorf("list the RetainedMediaAccounts: %w", err)
	}
	for i := range kept.Items {
		object := &kept.Items[i]
		if object.Spec.AccountNamespace != sampleNamespace || object.Spec.AccountName != sampleName || object.Spec.ClaimRef != nil {
			continue
		}
		before := object.DeepCopy()
		object.Spec.ClaimRef = &v1alpha1.ClaimReference{Namespace: sampleNamespace, Name: sampleName}
		if err := kube.Patch(ctx, object, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("claim the RetainedMediaAccount %s: %w", object.Name, err)
		}
		return nil
	}
	return nil
}

// readKey reads the Secret of the Default App of the sample account.
func readKey(ctx context.Context, kube client.Client) (apiKey, mcpURL string, err error) {
	name := client.ObjectKey{Namespace: sampleNamespace, Name: v1alpha1.SecretName(sampleName, account.DefaultApp)}
	var secret corev1.Secret
	if err := kube.Get(ctx, name, &secret); err != nil {
		return "", "", fmt.Errorf("read the Secret %s of the account: %w", name, err)
	}
	apiKey, mcpURL = string(secret.Data[v1alpha1.SecretAPIKey]), string(secret.Data[v1alpha1.SecretMCPURL])
	if apiKey == "" || mcpURL == "" {
		return "", "", fmt.Errorf("the Secret %s lacks %s or %s", name, v1alpha1.SecretAPIKey, v1alpha1.SecretMCPURL)
	}
	return apiKey, mcpURL, nil
}

// refresh brings the key up to date in a running stack's description: it changes when
// it is rotated or its Secret is deleted.
func (d *description) refresh(ctx context.Context, data *dataDir) error {
	config, err := clientcmd.BuildConfigFromFlags("", d.Kubeconfig)
	if err != nil {
		return err
	}
	kube, err := newKubeClient(config)
	if err != nil {
		return err
	}
	apiKey, _, err := readKey(ctx, kube)
	if err != nil || apiKey == d.APIKey {
		return err
	}
	d.APIKey = apiKey
	return data.writeJSON(descriptionFile, *d)
}
