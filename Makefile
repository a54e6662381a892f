# SPDX-License-Identifier: Apache-2.0
# A thin front over meson and ninja. Every target first sees to its own Debian packages (tools/packages.txt).
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
TIME ?= 3600
MESON_SETUP = meson setup --default-library=static

all: build examples

build: packages-build $(BUILD)/build.ninja
	ninja -C $(BUILD)

examples: packages-build packages-examples
	$(MAKE) -C examples OUT=$(abspath $(BUILD))/examples

demo: build examples packages-demo
	tools/demo $(BUILD)

test: packages-build packages-examples packages-test packages-lint
	test/run

bench: build examples packages-bench
	bench/main-job

# Looks for inputs that break the readers, TIME seconds in all; test/fuzz/run says more.
fuzz: packages-build packages-test
	test -f build-fuzz/build.ninja || CC=clang CXX=clang++ $(MESON_SETUP) build-fuzz -Dtests=true -Dfuzz=true \
		-Db_sanitize=address,undefined -Db_lundef=false -Dwerror=false -Doptimization=2
	ninja -C build-fuzz fuzzers
	test/fuzz/run build-fuzz $(TIME)

lint: build packages-lint
	tools/lint $(BUILD)

format: packages-format
	find include src man test bench examples -name '*.[ch]' -exec clang-format-14 -i {} +

# The prefix is set anew, so that it may differ from the one of an earlier install.
install: build
	meson configure $(BUILD) -Dprefix=$(abspath $(PREFIX))
	meson install -C $(BUILD) $(if $(DESTDIR),--destdir $(abspath $(DESTDIR)))

# A Debian package in $(BUILD)/deb; tools/deb-root tries it in a fresh root.
deb: packages-build packages-deb
	tools/make-deb $(BUILD)

clean:
	rm -rf $(BUILD) build-asan build-fuzz

help:
	@echo "make [all] | build | examples | demo | test | bench | lint | format | fuzz TIME=3600 | deb | install PREFIX=/usr/local [DESTDIR=] | clean"

$(BUILD)/build.ninja: packages-build
	test -f $@ || $(MESON_SETUP) $(BUILD) -Dtests=$(if $(wildcard /usr/include/cmocka.h),true,false)

packages-%:
	@tools/install-packages $*

.PHONY: all build examples demo test bench lint format fuzz deb install clean help
