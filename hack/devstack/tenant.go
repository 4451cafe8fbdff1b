package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// tenant is what the cluster holds of the sample account.
type tenant struct{ apiKey, mcpURL, bucket, owner string }

// readTenant reads the Secret of the account's Default App.
func readTenant(ctx context.Context, config *rest.Config, account *unstructured.Unstructured) (tenant, error) {
	secretName, bucket, err := accountStatus(account)
	if err != nil {
		return tenant{}, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return tenant{}, err
	}
	secret, err := client.Resource(secrets).Namespace(sampleNamespace).Get(ctx, secretName, metav1.GetOptions{})
	if err != nil {
		return tenant{}, fmt.Errorf("read the Secret %s/%s of the account: %w", sampleNamespace, secretName, err)
	}
	found := tenant{bucket: bucket}
	for name, value := range map[string]*string{"apiKey": &found.apiKey, "mcpURL": &found.mcpURL} {
		encoded, _, _ := unstructured.NestedString(secret.Object, "data", name)
		decoded, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || len(decoded) == 0 {
			return tenant{}, fmt.Errorf("the Secret %s/%s has no %s", sampleNamespace, secretName, name)
		}
		*value = string(decoded)
	}
	if owners, _, _ := unstructured.NestedStringSlice(account.Object, "spec", "owners"); len(owners) > 0 {
		found.owner = owners[0]
	}
	return found, nil
}

// refresh brings the key up to date in a running stack's description: it changes when
// it is rotated or its Secret is deleted.
func (d *description) refresh(ctx context.Context, data *dataDir) error {
	config, err := clientcmd.BuildConfigFromFlags("", d.Kubeconfig)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	account, err := client.Resource(accounts).Namespace(sampleNamespace).Get(ctx, sampleName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the MediaAccount %s: %w", d.Account, err)
	}
	now, err := readTenant(ctx, config, account)
	if err != nil || now.apiKey == d.APIKey {
		return err
	}
	d.APIKey = now.apiKey
	return data.writeJSON(descriptionFile, *d)
}

// accountStatus returns the Secret of the Default App and the bucket.
func accountStatus(account *unstructured.Unstructured) (secretName, bucket string, err error) {
	keys, _, _ := unstructured.NestedSlice(account.Object, "status", "keys")
	for _, entry := range keys {
		if key, ok := entry.(map[string]any); ok && key["app"] == "default" {
			secretName, _ = key["secretName"].(string)
		}
	}
	bucket, _, _ = unstructured.NestedString(account.Object, "status", "bucket")
	if secretName == "" || bucket == "" {
		return "", "", errors.New("the MediaAccount's status names no Secret of the Default App, or no bucket")
	}
	return secretName, bucket, nil
}
