# Builds from a checkout on this Mac, so it needs no address. Homebrew wants formulae to lie in a tap:
#   brew tap-new team/local
#   cp deploy/homebrew/coxswain.rb "$(brew --repository team/local)/Formula/"
#   HOMEBREW_COXSWAIN_SOURCE=$PWD brew install --HEAD team/local/coxswain
class Coxswain < Formula
  desc "Continuous batching of one language model for a team"
  # Homebrew passes on no variable whose name begins otherwise.
  head "file://#{ENV.fetch("HOMEBREW_COXSWAIN_SOURCE", "/opt/coxswain")}", using: :git, branch: "main"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on "cmake" => :build
  depends_on "rust" => :build
  depends_on :macos

  def install
    # The kernels' library is opened when the service starts, at the path that is written here; a folder of the build is gone by then.
    (libexec/"metal").mkpath
    ENV["MLX_RS_METAL_PATH"] = libexec/"metal"
    system "cargo", "install", *std_cargo_args
    odie "MLX left no Metal library" unless (libexec/"metal/mlx.metallib").exist?
  end

  def post_install
    (var/"coxswain").mkpath
  end

  service do
    run [opt_bin/"coxswain", "serve", "--log-format", "json"]
    environment_variables COXSWAIN_HOME: var/"coxswain"
    working_dir var/"coxswain"
    keep_alive true
    process_type :interactive
    log_path var/"log/coxswain.log"
    error_log_path var/"log/coxswain.log"
  end

  def caveats
    <<~EOS
      The default model is not part of this. In the checkout, with #{var}/coxswain writable:
        COXSWAIN_HOME=#{var}/coxswain make model
    EOS
  end

  test do
    assert_match "coxswain #{version}", shell_output("#{bin}/coxswain --version") unless build.head?
    assert_match "no such file or folder", shell_output("#{bin}/coxswain fit #{testpath}/none 2>&1", 1)
  end
end
