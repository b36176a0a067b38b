package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
)

// TestMigrationsStay: a migration that somebody's database has been through is
// never edited, since it does not run there again: what it would add is missing
// there, and shows only in use. A change is a new file with the next number, and
// its line here.
func TestMigrationsStay(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	released := map[string]string{
		"agent/queue/schema/0001_queue.sql":                 "67eaed9664539e6be266facdef010f91f411bc60c809920209ac9dac96b30b0e",
		"agent/queue/schema/0002_age.sql":                   "e0ae2dfe38423b8f78494be0029004dc59c3cf1bab451031dd3e562b0f42d345",
		"agent/queue/schema/0003_used.sql":                  "1e8a2b51b064fa0a4238c259a80ba44fea2d12345f8b7367376f55396b1bdfb2",
		"agent/queue/schema/0004_former.sql":                "4356174ff23e2827f9317f792a717c31aa088b5091fae3f44e2041e8e413afa5",
		"agent/queue/schema/0005_kept.sql":                  "da2ac905e02870f5affdef0cb69d4123e038b564255218b8cea50e6886560f04",
		"agent/queue/schema/0006_rules.sql":                 "27363ff91278cd2ea14553b9bc305ae830f16d00cf033b0a67cfc6750d08f479",
		"agent/queue/schema/0007_ends.sql":                  "3706ec9331a1f74dfe6da455684bf377b5bb4fe77ba966b4c430b30f4c9f3ee8",
		"agent/queue/schema/0008_absence.sql":               "b950449961b9205f2131e51483065bac0b4a30517f7f7b79be52fbf6cd74505f",
		"agent/queue/schema/0009_networks.sql":              "058a3204fe1060dbcca3c8505238d7c006afc8669e5c8f1f8869e33414b3ac7a",
		"agent/queue/schema/0010_audit_reserve.sql":         "5ab694e57049b4fe1ebc841370305f118f5bf5263400e8b8ba8d733b20fa5159",
		"coordinator/sqlstore/schema/0001_initial.sql":      "896cf8bb783f0b1be8790360bcf98d86d85efe7ddd758a88cd8339b5cca9b2b6",
		"coordinator/sqlstore/schema/0002_approvals.sql":    "693b3f37b34dae2f4c0f011e9365fa9d680e8d5b689b031ed27fdf46b5623dc7",
		"coordinator/sqlstore/schema/0003_together.sql":     "3b7fae0fcd0a362f4f494fd2501f05d9f46c1cb9e89cbcddc876844f12a42b32",
		"coordinator/sqlstore/schema/0004_past.sql":         "d2d839a621545ad5f8b68afb5ad95b262ffc998d934cfd7c47b4b66d0aba8b01",
		"coordinator/sqlstore/schema/0005_tally.sql":        "db86a9e0950e8822c9ad2087a54d2b10b4091e6de6f2625b9e59a982a0544b16",
		"coordinator/sqlstore/schema/0006_replaced.sql":     "86a5d074d9f262c3dfda8f6d3076e48b49074ca6b66c1f06d871619ed9ed1975",
		"coordinator/sqlstore/schema/0007_asked.sql":        "9f5a8defcfba0955e482e7cc9e77cf9d63d6bf93993046c13b2c74e0b643d4c2",
		"coordinator/sqlstore/schema/0008_former.sql":       "bf24188e0302635154fd4694d0ec33deff8e8f45b68d86e8955d0a9c5b4617b1",
		"coordinator/sqlstore/schema/0009_events.sql":       "03a73ef13ca6d10e58affdc13a550afb6295a1319fd4441220d160dabf151511",
		"coordinator/sqlstore/schema/0010_persons.sql":      "81d6bc2dc416e3dc1f0df56d83762bcd4109526a53fc60d135f637d5b3d301f6",
		"coordinator/sqlstore/schema/0011_workloads.sql":    "50c260e3f4b02f6e8ac272905e7a9bda1060e35933dc86a9450c82737a17d8a0",
		"coordinator/sqlstore/schema/0012_fences.sql":       "7459d1e16c3328fbbbeb776991528877dafd120331b5a7c7572b69c388dac5c4",
		"coordinator/sqlstore/schema/0013_turns.sql":        "a8ff0a877c9479faef5d1f810501b680c66ec97e199cde980ed2182284ae3a01",
		"coordinator/sqlstore/schema/0014_availability.sql": "65b757560a770d76742c9b6db43bda35453e46d8ddf10b0ca7a2b9feb988f99f",
	}
	for _, pattern := range []string{"*/schema/*.sql", "*/*/schema/*.sql", "*/*/*/schema/*.sql"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			name, err := filepath.Rel(root, file)
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(text)
			switch want, known := released[name]; {
			case !known:
				t.Errorf("%s is new: its line here is %q", name, hex.EncodeToString(sum[:]))
			case want != hex.EncodeToString(sum[:]):
				t.Errorf("%s was edited: databases that were through it will not have the change; make a new migration", name)
			}
			delete(released, name)
		}
	}
	for name := range released {
		t.Errorf("%s is gone: nobody could open an older database", name)
	}
}
