// An empty module in the place of one that letsgo requires and this project does not use; see the
// go.mod of the root.
module github.com/spf13/cobra
