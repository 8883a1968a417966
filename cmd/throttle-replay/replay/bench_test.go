package replay

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// nginxLog writes a log of the combined format.
func nginxLog(b *testing.B, lines, clients int) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "access.log")
	file, err := os.Create(path)
	require.NoError(b, err)
	out := bufio.NewWriter(file)
	random := rand.New(rand.NewPCG(1, 1))
	at := time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
	for i := range lines {
		client := min(random.IntN(clients), random.IntN(clients))
		_, err := fmt.Fprintf(out, "10.%d.%d.%d - - [%s] \"GET /api/items/%d?fields=name HTTP/1.1\" 200 %d \"https://shop.example/\" \"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36\"\n",
			client>>16, client>>8&255, client&255, at.Add(time.Duration(i)*10*time.Millisecond).Format("02/Jan/2006:15:04:05 -0700"), i%1000, i%5000)
		require.NoError(b, err)
	}
	require.NoError(b, out.Flush())
	require.NoError(b, file.Close())
	return path
}

// A log of nginx, with one RATE, and all that a report has.
func BenchmarkALogOfNginx(b *testing.B) {
	const lines = 400_000
	for _, clients := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(clients, " clients"), func(b *testing.B) {
			o := usual(b)
			o.Files, o.ShowKeys = []string{nginxLog(b, lines, clients)}, false
			o.Sets = []Set{{"limits", "RATE 10/s BURST 20"}}
			for b.Loop() {
				_, err := Run(b.Context(), o)
				require.NoError(b, err)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/lines, "ns/line")
		})
	}
}
