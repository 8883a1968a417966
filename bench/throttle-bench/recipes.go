package main

import (
	"embed"
	"fmt"
)

// The Lua recipes people rate limit with, each written from its description.
//
//go:embed recipes/*.lua
var recipes embed.FS

func recipe(name string) (string, error) {
	source, err := recipes.ReadFile("recipes/" + name)
	if err != nil {
		return "", fmt.Errorf("there is no recipe %s", name)
	}
	return string(source), nil
}
