# SPDX-License-Identifier: Apache-2.0
# A thin front over meson and ninja. Every target first sees to its own Debian packages (tools/packages.txt).
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
MESON_SETUP = meson setup --default-library=static

all: build examples

build: packages-build $(BUILD)/build.ninja
	ninja -C $(BUILD)

examples: packages-build packages-examples
	$(MAKE) -C examples OUT=$(abspath $(BUILD))/examples

demo: build examples packages-demo
	tools/demo $(BUILD)

test: packages-build packages-examples packages-test
	test/run

bench: build examples packages-bench
	bench/main-job

lint: build packages-lint
	tools/lint $(BUILD)

# The prefix is set anew, so that it may differ from the one of an earlier install.
install: build
	meson configure $(BUILD) -Dprefix=$(abspath $(PREFIX))
	meson install -C $(BUILD) $(if $(DESTDIR),--destdir $(abspath $(DESTDIR)))

clean:
	rm -rf $(BUILD) build-asan build-clang

help:
	@echo "make [all] | build | examples | demo | test | bench | lint | install PREFIX=/usr/local [DESTDIR=] | clean"

$(BUILD)/build.ninja: packages-build
	test -f $@ || $(MESON_SETUP) $(BUILD) -Dtests=$(if $(wildcard /usr/include/cmocka.h),true,false)

packages-%:
	@tools/install-packages $*

.PHONY: all build examples demo test bench lint install clean help
