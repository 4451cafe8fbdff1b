package installation_test

import (
	"strings"
	"testing"
	"time"

	"mediastack.dev/runtime/installation"
)

func TestInstanceConfig_RejectsATimeOutOfBounds(t *testing.T) {
	t.Parallel()
	for timeout, good := range map[time.Duration]bool{0: false, 9 * time.Second: false, 10 * time.Second: true, 10 * time.Minute: true, 11 * time.Minute: false} {
		err := installation.InstanceConfig{InstanceTimeout: timeout}.Validate()
		if (err == nil) != good || err != nil && !strings.Contains(err.Error(), "SERVICE_INSTANCE_TIMEOUT must be from 10s to 10m, not "+timeout.String()) {
			t.Errorf("%s: %v", timeout, err)
		}
	}
}
