package imaging

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

// ProgramName is the file name of the worker program.
const ProgramName = "mediastack-imaging"

// Config configures the pool. The tags are flag and environment names.
type Config struct {
	Enabled            bool          `env:"SERVICE_IMAGE_ENABLED" default:"true" negatable:"" help:"Make thumbnails, WebP conversions and the pictures of presets, and read the size and placeholder of images. If it is false, no image worker is needed."`
	WorkerPath         string        `name:"worker-path" env:"SERVICE_IMAGE_WORKER_PATH" help:"Path of mediastack-imaging; by default beside this program, else on the PATH."`
	Workers            int           `env:"SERVICE_IMAGE_WORKERS" default:"0" help:"Image workers, each a process that handles one image at a time; 0 = one for each core."`
	Queue              int           `env:"SERVICE_IMAGE_QUEUE" default:"64" help:"Images that may wait for a worker, or be on their way to it; half of them of one account. More are rejected with 429."`
	RenderQueue        int           `env:"SERVICE_IMAGE_RENDER_QUEUE" default:"0" help:"Requests for pictures of presets that may wait for a worker; half of them of one account. More are rejected with 429. 0 = as SERVICE_IMAGE_QUEUE."`
	Timeout            time.Duration `env:"SERVICE_IMAGE_TIMEOUT" default:"30s" help:"Time for one image. Its worker is killed then."`
	MaxBytes           int64         `env:"SERVICE_IMAGE_MAX_BYTES" default:"67108864" help:"Maximum size of a file, in bytes, of which pictures are made."`
	MaxPixels          int64         `env:"SERVICE_IMAGE_MAX_PIXELS" default:"100000000" help:"Maximum pixels, width times height, of an image of which pictures are made."`
	MaxFrames          int           `env:"SERVICE_IMAGE_MAX_FRAMES" default:"1000" help:"Maximum frames of an image of which pictures are made."`
	MaxAnimationPixels int64         `env:"SERVICE_IMAGE_MAX_ANIMATION_PIXELS" default:"50000000" help:"Maximum pixels, width times height times frames, of an animation that a preset keeps, of the file and of the picture; 0 = no animation is kept."`
	Memory             int64         `env:"SERVICE_IMAGE_MEMORY" default:"2147483648" help:"Address space, in bytes, that a worker may use for one image."`
}

// Bounds of the configuration.
const (
	maxWorkers = 256
	minMemory  = 256 << 20
	maxTimeout = 10 * time.Minute
)

// Validate checks the bounds.
func (c Config) Validate() error {
	switch {
	case !c.Enabled:
		return nil
	case c.Workers < 0 || c.Workers > maxWorkers:
		return fmt.Errorf("SERVICE_IMAGE_WORKERS must be from 0 to %d, not %d", maxWorkers, c.Workers)
	case c.Queue < 1:
		return fmt.Errorf("SERVICE_IMAGE_QUEUE must be at least 1, not %d", c.Queue)
	case c.RenderQueue < 0:
		return fmt.Errorf("SERVICE_IMAGE_RENDER_QUEUE must be at least 0, not %d", c.RenderQueue)
	case c.Timeout < time.Second || c.Timeout > maxTimeout:
		return fmt.Errorf("SERVICE_IMAGE_TIMEOUT must be from 1s to %s, not %s", maxTimeout, c.Timeout)
	case c.MaxBytes < 1 || c.MaxBytes > math.MaxInt32:
		return fmt.Errorf("SERVICE_IMAGE_MAX_BYTES must be from 1 to %d, not %d", math.MaxInt32, c.MaxBytes)
	case c.MaxPixels < 1:
		return fmt.Errorf("SERVICE_IMAGE_MAX_PIXELS must be at least 1, not %d", c.MaxPixels)
	case c.MaxFrames < 1 || c.MaxFrames > math.MaxInt32:
		return fmt.Errorf("SERVICE_IMAGE_MAX_FRAMES must be from 1 to %d, not %d", math.MaxInt32, c.MaxFrames)
	case c.MaxAnimationPixels < 0:
		return fmt.Errorf("SERVICE_IMAGE_MAX_ANIMATION_PIXELS must be at least 0, not %d", c.MaxAnimationPixels)
	case c.Memory < minMemory:
		return fmt.Errorf("SERVICE_IMAGE_MEMORY must be at least %d, not %d", minMemory, c.Memory)
	}
	return nil
}

// WorkerCount returns the number of workers.
func (c Config) WorkerCount() int {
	if c.Workers == 0 {
		return runtime.GOMAXPROCS(0)
	}
	return c.Workers
}

// renderQueue returns the slots of the queue of renditions.
func (c Config) renderQueue() int {
	if c.RenderQueue == 0 {
		return c.Queue
	}
	return c.RenderQueue
}

// findWorker returns the path of the worker program.
func (c Config) findWorker() (string, error) {
	if c.WorkerPath != "" {
		path, err := exec.LookPath(c.WorkerPath)
		if err != nil {
			return "", fmt.Errorf("SERVICE_IMAGE_WORKER_PATH: %w", err)
		}
		return filepath.Abs(path)
	}
	if own, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(own), ProgramName)
		if path, err := exec.LookPath(beside); err == nil {
			return path, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("find the image worker: %w", err)
		}
	}
	path, err := exec.LookPath(ProgramName)
	if err != nil {
		return "", fmt.Errorf("%s is neither beside this program nor on the PATH: set SERVICE_IMAGE_WORKER_PATH to its path, or SERVICE_IMAGE_ENABLED=false to run without thumbnails and conversions", ProgramName)
	}
	return filepath.Abs(path)
}
