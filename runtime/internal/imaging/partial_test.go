package imaging_test

import (
	"errors"
	"testing"

	"mediastack.dev/runtime/internal/imaging"
	"mediastack.dev/runtime/internal/imaging/imagetest"
	"mediastack.dev/runtime/media"
)

// variants returns the variants of derivatives.
func variants(made []media.Derivative) (names []media.Variant) {
	for _, one := range made {
		names = append(names, one.Variant)
	}
	return names
}

// An image of 9990 x 9990 transparent pixels, within all limits, once had no thumbnail because
// the encoder of its conversion ran out of memory.
func TestDerive_LargeTransparentImageHasBothDerivatives(t *testing.T) {
	t.Parallel()
	pool := open(t, config(realWorker(t)))
	_, made, err := pool.Derive(t.Context(), request("image/png", imagetest.BlankPNG(9990, 9990, 8, 6, false)))
	if err != nil || len(made) != 2 || made[0].Variant != media.Thumbnail || made[1].Variant != media.WebP {
		t.Errorf("made %v, %v; log %s", variants(made), err, pool.log)
	}
}

// If the memory suffices for no setting of the encoder, there is still a thumbnail.
func TestDerive_KeepsTheThumbnailIfTheConversionFails(t *testing.T) {
	t.Parallel()
	cfg := config(realWorker(t))
	cfg.Memory = 640 << 20
	pool := open(t, cfg)
	_, made, err := pool.Derive(t.Context(), request("image/png", imagetest.BlankPNG(9990, 9990, 8, 6, false)))
	var rejected *imaging.RejectedError
	if !errors.As(err, &rejected) || rejected.Variant != media.WebP || rejected.Reason != "out_of_memory" && rejected.Reason != "encoder_error" || len(made) != 1 || made[0].Variant != media.Thumbnail {
		t.Errorf("made %v, %v; log %s", variants(made), err, pool.log)
	}
	// The worker continues to work.
	if _, made, err := pool.Derive(t.Context(), request("image/png", imagetest.PNG(imagetest.Picture(600, 400)))); err != nil || len(made) != 2 {
		t.Errorf("the next job: %v, %v", variants(made), err)
	}
	if n := pool.metric("mediastack_image_worker_exits_total", "crashed"); n != 0 {
		t.Errorf("%g workers failed", n)
	}
}

func TestDerive_KeepsWhatWasMadeBeforeTheWorkerFailed(t *testing.T) {
	t.Parallel()
	for role, want := range map[string]int{"crashes-after-the-first": 1, "fails-the-second": 1, "fails-both": 0, "fails-it-twice": 0, "rejects-after-a-failure": 0} {
		pool := open(t, config(fakeWorker(t, role)))
		job := smallJob()
		job.Settings.UseWebP = true
		_, made, err := pool.Derive(t.Context(), job)
		if err == nil || len(made) != want {
			t.Errorf("%s: made %v, %v", role, variants(made), err)
		}
		if failed := pool.metric("mediastack_image_worker_exits_total", "crashed"); (failed == 0) != (role == "fails-the-second" || role == "fails-both") {
			t.Errorf("%s: %g workers failed", role, failed)
		}
	}
}
